package icestream;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.api.java.UDF4;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Regular expressions and LIKE patterns of users, as functions of a Spark session. Each gives NULL for a NULL argument, and
 * where it fails: the pattern is not a regular expression, or the match takes too many steps or too deep a stack.
 *
 * <p>Spark's own functions match without a limit: nothing ends a task whose pattern backtracks for years, and a stack overflow
 * in a task ends the JVM. Here every look at a character is a step; steps are limited, and end when the task is cancelled.
 */
public final class Regex {
  private static final long MOST_STEPS = 20_000_000;
  private static final long STEPS_PER_CHARACTER = 100;
  private static final int STEPS_BETWEEN_CHECKS = 1 << 16;
  private static final int CACHED = 256;
  private static final int LONGEST_CACHED = 10_000;
  private static final String TOO_COMPLEX = "regular expression failed: regular expression is too complex";

  private static final Map<String, Compiled> CACHE =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Compiled> eldest) {
          return size() > CACHED;
        }
      };
  private static final ThreadLocal<Compiled> LAST = new ThreadLocal<>();
  private static final Set<String> CANCELLED = ConcurrentHashMap.newKeySet();
  private static volatile SparkContext driver;

  private Regex() {}

  /** Give a session the functions. */
  public static void register(SparkSession spark) {
    driver = spark.sparkContext();
    DataType text = DataTypes.StringType;
    DataType texts = DataTypes.createArrayType(text);
    UDF2<String, String, Boolean> matches = Regex::matches;
    UDF2<String, String, List<String[]>> groups = Regex::groups;
    UDF3<String, String, Integer, String[]> substring = Regex::substring;
    UDF2<String, String, Integer> count = Regex::count;
    UDF2<String, String, List<String>> split = Regex::split;
    UDF4<String, String, String, Boolean, String> replace = Regex::replace;
    UDF1<String, String> problem = Regex::problem;
    UDF2<String, String, Boolean> like = Regex::like;
    spark.udf().register("icestream_regex_matches", matches, DataTypes.BooleanType);
    spark.udf().register("icestream_regex_groups", groups, DataTypes.createArrayType(texts));
    spark.udf().register("icestream_regex_substring", substring, texts);
    spark.udf().register("icestream_regex_count", count, DataTypes.IntegerType);
    spark.udf().register("icestream_regex_split", split, texts);
    spark.udf().register("icestream_regex_replace", replace, text);
    spark.udf().register("icestream_regex_problem", problem, text);
    spark.udf().register("icestream_like", like, DataTypes.BooleanType);
  }

  /** End what is evaluated for a job group outside tasks: Spark computes constants where it plans. */
  public static void cancel(String group) {
    CANCELLED.add(group);
  }

  /** The job group is gone. */
  public static void forget(String group) {
    CANCELLED.remove(group);
  }

  private static boolean isCancelled() {
    TaskContext task = TaskContext.get();
    if (task != null) {
      return task.isInterrupted();
    }
    if (driver == null || CANCELLED.isEmpty()) {
      return false;
    }
    String group = driver.getLocalProperty("spark.jobGroup.id");
    return group != null && CANCELLED.contains(group);
  }

  /** Whether the pattern matches somewhere in the text. */
  static Boolean matches(String text, String pattern) {
    return search(text, pattern, (matcher, steps) -> matcher.find());
  }

  /** No element where nothing matches, else one: the groups of the first match, or the match where there are no groups. */
  static List<String[]> groups(String text, String pattern) {
    return search(
        text,
        pattern,
        (matcher, steps) -> {
          if (!matcher.find()) {
            return List.of();
          }
          int groups = matcher.groupCount();
          String[] found = new String[Math.max(groups, 1)];
          for (int at = 0; at < found.length; at++) {
            found[at] = matcher.group(groups == 0 ? 0 : at + 1);
          }
          return List.<String[]>of(found);
        });
  }

  /** No element where nothing matches, else one: a group of the first match, or the match where there is no such group. */
  static String[] substring(String text, String pattern, Integer group) {
    return search(
        text,
        pattern,
        (matcher, steps) ->
            matcher.find()
                ? new String[] {matcher.group(Math.min(group, matcher.groupCount()))}
                : new String[0]);
  }

  /** How often the pattern matches. */
  static Integer count(String text, String pattern) {
    return search(
        text,
        pattern,
        (matcher, steps) -> {
          int count = 0;
          while (matcher.find()) {
            steps.add(1);
            count++;
          }
          return count;
        });
  }

  /** The texts between matches. An empty match at either end or directly after another match separates nothing. */
  static List<String> split(String text, String pattern) {
    return search(
        text,
        pattern,
        (matcher, steps) -> {
          List<String> parts = new ArrayList<>();
          int begin = 0;
          int before = 0;
          while (matcher.find()) {
            steps.add(1);
            if (matcher.start() < text.length() && matcher.end() > before) {
              parts.add(text.substring(begin, matcher.start()));
              begin = matcher.end();
            }
            before = matcher.end();
          }
          parts.add(text.substring(begin));
          return parts;
        });
  }

  /** The text with the first match, or every match, replaced. In the replacement \1 to \9 are groups and \& is the match. */
  static String replace(String text, String pattern, String replacement, Boolean every) {
    if (replacement == null) {
      return null;
    }
    return search(
        text,
        pattern,
        (matcher, steps) -> {
          StringBuilder out = new StringBuilder();
          int begin = 0;
          while (matcher.find()) {
            out.append(text, begin, matcher.start());
            int length = out.length();
            append(out, replacement, matcher, text);
            steps.add(1 + out.length() - length);
            begin = matcher.end();
            if (!every) {
              break;
            }
          }
          return out.append(text, begin, text.length()).toString();
        });
  }

  private static void append(StringBuilder out, String replacement, Matcher matcher, String text) {
    for (int at = 0; at < replacement.length(); at++) {
      char c = replacement.charAt(at);
      char next = c == '\\' && at + 1 < replacement.length() ? replacement.charAt(at + 1) : 0;
      int group = next == '&' ? 0 : next >= '1' && next <= '9' ? next - '0' : -1;
      if (group >= 0) {
        if (group <= matcher.groupCount() && matcher.start(group) >= 0) {
          out.append(text, matcher.start(group), matcher.end(group));
        }
      } else {
        out.append(c);
      }
      at += group >= 0 || next == '\\' ? 1 : 0;
    }
  }

  /** PostgreSQL's message for a pattern that failed. */
  static String problem(String pattern) {
    if (pattern == null) {
      return null;
    }
    String problem = compile(pattern).problem;
    return problem == null ? TOO_COMPLEX : problem;
  }

  /**
   * Whether the whole text is as a LIKE pattern says; NULL if the pattern ends with its escape character. Of several wildcards
   * only the last one that was met is ever extended: a wildcard before it would find nothing that this one does not.
   */
  static Boolean like(String text, String pattern) {
    if (text == null || pattern == null) {
      return null;
    }
    int escapes = 0;
    while (escapes < pattern.length() && pattern.charAt(pattern.length() - 1 - escapes) == '\\') {
      escapes++;
    }
    if (escapes % 2 == 1) {
      return null;
    }
    Steps steps = new Steps(text, Long.MAX_VALUE);
    int t = 0;
    int p = 0;
    int afterWildcard = -1;
    int extended = 0;
    while (true) {
      char c = p < pattern.length() ? pattern.charAt(p) : 0;
      if (p < pattern.length() && c == '%') {
        afterWildcard = ++p;
        extended = t;
        continue;
      }
      if (p == pattern.length() && (t == text.length() || p == afterWildcard)) {
        return true;
      }
      if (t < text.length() && p < pattern.length()) {
        int literal = c == '\\' ? p + 1 : p;
        if (c == '_') {
          t += Character.charCount(Character.codePointAt(steps, t));
          p++;
          continue;
        }
        if (steps.charAt(t) == pattern.charAt(literal)) {
          t++;
          p = literal + 1;
          continue;
        }
      }
      if (afterWildcard < 0 || t == text.length() && p < pattern.length()) {
        return false;
      }
      if (extended == text.length()) {
        return false;
      }
      extended += Character.charCount(Character.codePointAt(steps, extended));
      t = extended;
      p = afterWildcard;
    }
  }

  private interface Operation<R> {
    R apply(Matcher matcher, Steps steps);
  }

  private static <R> R search(String text, String pattern, Operation<R> operation) {
    if (text == null || pattern == null) {
      return null;
    }
    Compiled compiled = compile(pattern);
    if (compiled.problem != null) {
      return null;
    }
    Steps steps = new Steps(text, MOST_STEPS + STEPS_PER_CHARACTER * text.length());
    try {
      return operation.apply(compiled.regex.matcher(steps), steps);
    } catch (TooComplex | StackOverflowError failure) {
      return null;
    }
  }

  private static Compiled compile(String pattern) {
    Compiled last = LAST.get();
    if (last != null && last.pattern.equals(pattern)) {
      return last;
    }
    Compiled found;
    synchronized (CACHE) {
      found = CACHE.get(pattern);
    }
    if (found == null) {
      found = new Compiled(pattern);
      if (pattern.length() <= LONGEST_CACHED) {
        synchronized (CACHE) {
          CACHE.put(pattern, found);
        }
      }
    }
    LAST.set(found);
    return found;
  }

  /** A pattern, and what is wrong with it or null. */
  private static final class Compiled {
    final String pattern;
    final Pattern regex;
    final String problem;

    Compiled(String pattern) {
      this.pattern = pattern;
      Pattern compiled = null;
      String found = null;
      try {
        compiled = Pattern.compile(pattern);
        found = RegexAmbiguity.find(pattern);
      } catch (PatternSyntaxException | StackOverflowError error) {
        String reason = error instanceof PatternSyntaxException syntax ? syntax.getDescription() : "too deep";
        found = "invalid regular expression: " + reason;
      }
      regex = compiled;
      problem = found;
    }
  }

  /** The text, of which only so many characters may be looked at. */
  private static final class Steps implements CharSequence {
    private final String text;
    private long left;
    private int untilCheck = STEPS_BETWEEN_CHECKS;

    Steps(String text, long most) {
      this.text = text;
      left = most;
    }

    @Override
    public char charAt(int index) {
      if (--untilCheck <= 0) {
        check();
      }
      return text.charAt(index);
    }

    void add(int steps) {
      untilCheck -= steps;
      if (untilCheck <= 0) {
        check();
      }
    }

    private void check() {
      left -= STEPS_BETWEEN_CHECKS - untilCheck;
      untilCheck = STEPS_BETWEEN_CHECKS;
      if (isCancelled()) {
        throw new TaskKilledException("cancelled");
      }
      if (left <= 0) {
        throw new TooComplex();
      }
    }

    @Override
    public int length() {
      return text.length();
    }

    @Override
    public CharSequence subSequence(int start, int end) {
      return text.substring(start, end);
    }

    @Override
    public String toString() {
      return text;
    }
  }

  private static final class TooComplex extends RuntimeException {
    TooComplex() {
      super(TOO_COMPLEX, null, false, false);
    }
  }
}
