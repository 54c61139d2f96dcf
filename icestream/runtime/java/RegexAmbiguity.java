package icestream;

/**
 * Refuses regular expressions that can match nothing in too many ways, such as (|)(|)(|)…: a matcher tries all of them without a
 * look at the text, where nothing counts its steps. Also repetitions beyond 255, which is PostgreSQL's limit.
 *
 * <p>It reads a pattern that Java has compiled already. A part is described by the number of ways through it that read no
 * character: from its start up to the first one that is read, from end to end, and from the last one that is read to its end.
 */
final class RegexAmbiguity {
  private static final long MOST_WAYS = 10_000;
  private static final int MOST_REPETITIONS = 255;
  private static final Part CHARACTER = new Part(1, 0, 1);
  private static final Part NOTHING = new Part(1, 1, 1);

  private final String pattern;
  private int at;
  private boolean comments;

  private record Part(long head, long through, long tail) {}

  /** What is wrong with the pattern. */
  private static final class Refused extends RuntimeException {
    Refused(String message) {
      super(message, null, false, false);
    }
  }

  private RegexAmbiguity(String pattern) {
    this.pattern = pattern;
  }

  /** PostgreSQL's message for a pattern that is refused, or null. */
  static String find(String pattern) {
    RegexAmbiguity reader = new RegexAmbiguity(pattern);
    try {
      while (reader.at < pattern.length()) {
        reader.readAlternatives();
        reader.at++; // a bracket that closes nothing
      }
      return null;
    } catch (Refused refused) {
      return "invalid regular expression: " + refused.getMessage();
    } catch (NumberFormatException | IndexOutOfBoundsException unread) {
      return "invalid regular expression: regular expression is too complex";
    }
  }

  private static long limit(long ways) {
    if (ways > MOST_WAYS) {
      throw new Refused("regular expression is too complex");
    }
    return ways;
  }

  private Part readAlternatives() {
    boolean outside = comments;
    Part all = readSequence();
    while (peek('|')) {
      at++;
      Part next = readSequence();
      long tail = Math.max(all.tail, next.tail);
      all = new Part(limit(all.head + next.head), limit(all.through + next.through), tail);
    }
    comments = outside;
    return all;
  }

  private Part readSequence() {
    Part all = NOTHING;
    while (at < pattern.length() && !peek('|') && !peek(')')) {
      Part next = readRepeated();
      limit(all.tail * next.head);
      long head = Math.max(all.head, limit(all.through * next.head));
      long tail = Math.max(limit(all.tail * next.through), next.tail);
      all = new Part(head, limit(all.through * next.through), tail);
    }
    return all;
  }

  private Part readRepeated() {
    Part part = readOne();
    skipBlanks();
    while (at < pattern.length() && "?*+{".indexOf(pattern.charAt(at)) >= 0) {
      char kind = pattern.charAt(at++);
      int least = kind == '+' ? 1 : 0;
      if (kind == '{') {
        int end = Math.max(pattern.indexOf('}', at), at);
        least = readCounts(pattern.substring(at, end));
        at = end + 1;
      }
      if (peek('?') || peek('+')) {
        at++; // reluctant, possessive
      }
      long times = part.through > 0 ? Math.max(least, 1) : 1;
      long through = limit(part.through * times) + (least == 0 ? 1 : 0);
      limit(part.tail * part.head);
      part = new Part(limit(part.head * times), limit(through), limit(part.tail * (part.through + 1)));
      skipBlanks();
    }
    return part;
  }

  private static int readCounts(String counts) {
    int least = -1;
    for (String count : counts.split(",")) {
      String digits = count.strip();
      if (digits.length() > 9 || !digits.isEmpty() && Integer.parseInt(digits) > MOST_REPETITIONS) {
        throw new Refused("invalid repetition count(s)");
      }
      least = least < 0 ? (digits.isEmpty() ? 0 : Integer.parseInt(digits)) : least;
    }
    return Math.max(least, 0);
  }

  private Part readOne() {
    skipBlanks();
    if (at >= pattern.length() || peek('|') || peek(')')) {
      return NOTHING;
    }
    char c = pattern.charAt(at);
    if (c == '(') {
      return readGroup();
    }
    if (c == '[') {
      skipClass();
      return CHARACTER;
    }
    if (c == '\\') {
      return readEscape();
    }
    at++;
    return c == '^' || c == '$' ? NOTHING : CHARACTER;
  }

  private Part readGroup() {
    boolean outside = comments;
    boolean looks = false;
    at++;
    if (peek('?')) {
      at++;
      if (peek('<') && !pattern.startsWith("<=", at) && !pattern.startsWith("<!", at)) {
        at = Math.max(pattern.indexOf('>', at), at) + 1;
      } else if (peek('=') || peek('!') || peek('<')) {
        looks = true;
        at += peek('<') ? 2 : 1;
      } else if (peek('>')) {
        at++;
      } else {
        boolean on = true;
        for (; at < pattern.length() && !peek(':') && !peek(')'); at++) {
          on &= !peek('-');
          comments = peek('x') ? on : comments;
        }
        if (peek(')')) {
          at++;
          return NOTHING; // flags for the rest of the group around
        }
        at++;
      }
    }
    Part inner = readAlternatives();
    at++;
    comments = outside;
    return looks ? new Part(inner.head, 1, 1) : inner;
  }

  private Part readEscape() {
    char c = at + 1 < pattern.length() ? pattern.charAt(at + 1) : 0;
    at += 2;
    if (c == 'Q') {
      int end = pattern.indexOf("\\E", at);
      boolean empty = end == at;
      at = end < 0 ? pattern.length() : end + 2;
      return empty ? NOTHING : CHARACTER;
    }
    if (c == 'k') {
      at = Math.max(pattern.indexOf('>', at), at) + 1;
      return NOTHING;
    }
    if ("pPxNb".indexOf(c) >= 0 && peek('{')) {
      at = Math.max(pattern.indexOf('}', at), at) + 1;
    }
    return "AbBGzZE".indexOf(c) >= 0 || c >= '1' && c <= '9' ? NOTHING : CHARACTER;
  }

  /** A class in brackets, which may hold others. A first ] is an error in Java, so that the next one closes it. */
  private void skipClass() {
    int depth = 0;
    do {
      skipBlanks();
      char c = at < pattern.length() ? pattern.charAt(at) : ']';
      if (c == '\\') {
        readEscape();
        continue;
      }
      depth += c == '[' ? 1 : c == ']' ? -1 : 0;
      at++;
    } while (depth > 0 && at < pattern.length());
  }

  private boolean peek(char c) {
    return at < pattern.length() && pattern.charAt(at) == c;
  }

  /** Blanks and comments, where a flag says that they are none of the pattern. */
  private void skipBlanks() {
    while (comments && at < pattern.length()) {
      char c = pattern.charAt(at);
      if (c == '#') {
        while (at < pattern.length() && "\n\r\u0085\u2028\u2029".indexOf(pattern.charAt(at)) < 0) {
          at++;
        }
      } else if (c <= ' ' && " \t\n\u000b\f\r".indexOf(c) >= 0) {
        at++;
      } else {
        return;
      }
    }
  }
}
