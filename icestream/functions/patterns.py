"""Pattern matching: LIKE, SIMILAR TO and PostgreSQL's regular expressions on Java's.

A constant pattern is translated when the expression is bound; a pattern from a column is taken as Java reads it.
Where a pattern can match in several ways PostgreSQL prefers the longest match of an alternation, Java the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from icestream import types as t
from icestream.functions import fragments as f
from icestream.functions.expressions import Expr
from icestream.functions.function import Function, Rows, Template
from icestream.functions.input_errors import TextInputError
from icestream.functions.strings import constant, required

TEXT, I4, BOOL = t.VARCHAR, t.INTEGER, t.BOOLEAN
_CLASSES = {
    "alpha": r"\p{L}", "digit": r"\p{Nd}", "alnum": r"\p{L}\p{Nd}", "upper": r"\p{Lu}", "lower": r"\p{Ll}",
    "space": r"\s", "punct": r"\p{Punct}", "xdigit": "0-9A-Fa-f", "blank": r" \t", "cntrl": r"\p{Cntrl}",
    "print": r"\p{Print}", "graph": r"\p{Graph}", "word": r"\w",
}  # fmt: skip
_ESCAPES = {"m": r"\b(?=\w)", "M": r"\b(?<=\w)", "y": r"\b", "Y": r"\B", "Z": r"\z", "A": r"\A"}


def java_regex(pattern: str, shift: int = 0) -> str:
    """A PostgreSQL regular expression as Java writes it; `shift` moves back-references up."""
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            n = pattern[i + 1]
            if n.isdigit() and n != "0":
                out += f"\\{int(n) + shift}"
            else:
                out += _ESCAPES.get(n, c + n)
            i += 2
        elif c == "[":
            text, i = _bracket(pattern, i)
            out += text
        elif c == "$":
            out += r"\z"
            i += 1
        else:
            out += c
            i += 1
    return out


def _bracket(pattern: str, i: int) -> tuple[str, int]:
    """One [...] with POSIX classes; inside it Java gives [ and & meanings that PostgreSQL does not."""
    out, i = "[", i + 1
    if pattern.startswith("^", i):
        out, i = out + "^", i + 1
    first = True
    while i < len(pattern) and (pattern[i] != "]" or first):
        first = False
        if match := re.match(r"\[:(\w+):\]", pattern[i:]):
            if match.group(1) not in _CLASSES:
                raise ValueError(f"the character class {match.group(0)}")
            out += _CLASSES[match.group(1)]
            i += match.end()
        elif pattern[i] == "\\" and i + 1 < len(pattern):
            out += pattern[i : i + 2]
            i += 2
        else:
            out += ("\\" if pattern[i] in "[]&~" else "") + pattern[i]
            i += 1
    return out + "]", i + 1


def groups(pattern: str) -> int:
    """How many groups a pattern captures."""
    plain = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", pattern)
    return len(re.findall(r"\((?!\?)", plain))


def _modes(flags: str) -> str:
    """Java's inline flags: a dot matches a newline in PostgreSQL unless told otherwise."""
    unknown = set(flags) - set("gicsntmpxq")
    if unknown:
        raise ValueError(f"the regular expression flag {''.join(sorted(unknown))!r}")
    modes = ("iu" if "i" in flags else "") + ("x" if "x" in flags else "")
    modes += "m" if set(flags) & set("nm") else ""
    modes += "" if set(flags) & set("nmp") else "s"
    return f"(?U{modes})"


def _regex(a: str, e: Expr, flags: str = "") -> str:
    """The rendered pattern."""
    value = constant(e)
    if value is not None:
        return f.string(_modes(flags) + java_regex(value))
    return f"concat({f.string(_modes(flags))}, {a})"


def _match(flags: str) -> Template:
    return lambda a, e: f"({a[0]} RLIKE {_regex(a[1], e[1], flags)})"


def _regexp_like(a: Sequence[str], e: Sequence[Expr]) -> str:
    flags = required(e[2], "regexp_like with flags")
    return f"({a[0]} RLIKE {_regex(a[1], e[1], flags)})"


def _replacement(a: str, e: Expr, shift: int) -> str:
    value = constant(e)
    if value is None:
        dollars = f"regexp_replace({a}, '[$]', '\\\\\\\\\\\\$')"
        numbered = f"regexp_replace({dollars}, '\\\\\\\\([1-9])', '\\\\$$1')"
        if shift:
            raise ValueError("regexp_replace without 'g' whose replacement is not a constant")
        return numbered
    out, i = "", 0
    while i < len(value):
        c = value[i]
        if c == "\\" and i + 1 < len(value):
            n = value[i + 1]
            if n == "&":
                out += "$2" if shift else "$0"
            elif n.isdigit() and n != "0":
                out += f"${int(n) + shift}"
            else:
                out += "\\" + n
            i += 2
            continue
        out += "\\" + c if c in "\\$" else c
        i += 1
    return f.string(out)


def _regexp_replace(a: Sequence[str], e: Sequence[Expr]) -> str:
    flags = required(e[3], "regexp_replace with flags") if len(a) > 3 else ""
    if "g" in flags:
        return f"regexp_replace({a[0]}, {_regex(a[1], e[1], flags)}, {_replacement(a[2], e[2], 0)})"
    # the first match only: anchor at the beginning and carry what stands before it
    pattern = required(e[1], "regexp_replace without 'g' and with a pattern")
    whole = r"\&" in (constant(e[2]) or "")
    shift = 2 if whole else 1
    inner = java_regex(pattern, shift)
    body = f"({inner})" if whole else f"(?:{inner})"
    anchored = f"{_modes(flags)}\\A([\\s\\S]*?){body}"
    replacement = _replacement(a[2], e[2], shift)
    return f"regexp_replace({a[0]}, {f.string(anchored)}, concat('$1', {replacement}))"


def _extracted(
    a: Sequence[str], e: Sequence[Expr], what: str, flags_at: int = 2
) -> tuple[str, int]:
    pattern = required(e[1], f"{what} with a pattern")
    flags = required(e[flags_at], f"{what} with flags") if len(a) > flags_at else ""
    return f.string(_modes(flags) + java_regex(pattern)), groups(pattern)


def _substring(a: Sequence[str], e: Sequence[Expr]) -> str:
    regex, count = _extracted(a, e, "substring")
    return f"IF({a[0]} RLIKE {regex}, regexp_extract({a[0]}, {regex}, {min(count, 1)}), NULL)"


def _regexp_match(a: Sequence[str], e: Sequence[Expr]) -> str:
    regex, count = _extracted(a, e, "regexp_match")
    found = ", ".join(
        f"regexp_extract({a[0]}, {regex}, {i})" for i in (range(1, count + 1) or (0,))
    )
    return f"IF({a[0]} RLIKE {regex}, array({found}), NULL)"


def _regexp_count(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"regexp_count({a[0]}, {_regex(a[1], e[1])})"


def _regexp_substr(a: Sequence[str], e: Sequence[Expr]) -> str:
    regex = _regex(a[1], e[1])
    return f"IF({a[0]} RLIKE {regex}, regexp_extract({a[0]}, {regex}, 0), NULL)"


def _regexp_split(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"split({a[0]}, {_regex(a[1], e[1])}, -1)"


def _like(name: str) -> Template:
    """LIKE and ILIKE. An escape before an ordinary character is that character; Spark refuses it."""

    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        escape = _escape(e[2], "LIKE") if len(a) > 2 else "\\"
        pattern = constant(e[1])
        if pattern is None:
            if escape != "\\":
                raise ValueError("LIKE with a pattern that is not a constant and an ESCAPE")
            return _like_any(a[0], a[1], name)
        parts = like_parts(pattern, escape)
        if not has_backtracking(parts):
            return f"({a[0]} {name} {f.string(like_pattern(parts))})"
        # ILIKE compares what both are in lower case. The text has no letters of its own that are not.
        regex = f.string(_atomic(parts))
        low = (f"lower({a[0]})", f"lower({regex})")
        return f"({a[0]} RLIKE {regex})" if name == "LIKE" else f"({low[0]} RLIKE {low[1]})"

    return template


def _escape(expr: Expr, what: str) -> str:
    escape = required(expr, f"{what} with an escape")
    if len(escape) > 1:
        raise TextInputError("22025", "invalid escape string", "it must be empty or one character")
    return escape


ANY_CHARACTER = None
Segment = tuple[str | None, ...]
"""Characters that follow each other; None is any one."""


def like_parts(pattern: str, escape: str) -> tuple[Segment, ...]:
    """What stands between the wildcards % of a LIKE pattern, of which several in a row are one."""
    parts: list[list[str | None]] = [[]]
    i, wild = 0, False
    while i < len(pattern):
        c = pattern[i]
        if c == "%":
            if not wild:
                parts.append([])
            wild, i = True, i + 1
            continue
        wild = False
        if escape and c == escape:
            if i + 1 == len(pattern):
                raise TextInputError("22025", "LIKE pattern must not end with escape character")
            i += 1
            parts[-1].append(pattern[i])
        else:
            parts[-1].append(ANY_CHARACTER if c == "_" else c)
        i += 1
    return tuple(map(tuple, parts))


def has_backtracking(parts: Sequence[Segment]) -> bool:
    """Whether a matcher that tries all ways takes more than one pass: two wildcards with something behind them."""
    return len(parts) > (3 if parts[-1] == () else 2)


def like_pattern(parts: Sequence[Segment]) -> str:
    """The LIKE pattern with the escape \\, and only where it is needed."""

    def written(c: str | None) -> str:
        return "_" if c is None else "\\" + c if c in "%_\\" else c

    return "%".join("".join(map(written, part)) for part in parts)


def like_regex(parts: Sequence[Segment]) -> str:
    """The pattern as a regular expression, for matchers that never go back."""
    return "(?s)" + ".*".join(map(_literal, parts))


def _atomic(parts: Sequence[Segment]) -> str:
    """The pattern for Java, which goes back: the first place where a part is found is as good as any later one, so it
    need not try the others. It would take years for some patterns, and nothing ends it."""
    first, *middle, last = map(_literal, parts)
    found = "".join(f"(?>.*?{part})" for part in middle)
    return f"(?s)^{first}{found}" + (f".*{last}\\z" if last else "")


def _literal(part: Segment) -> str:
    return "".join(
        "." if c is None else c if c.isalnum() or c == "_" or not c.isascii() else "\\" + c
        for c in part
    )


def _like_any(text: str, pattern: str, name: str) -> str:
    """LIKE with a pattern from a column: the text of `_atomic`, made by Spark. NULL if it ends with its escape."""
    if name == "ILIKE":
        text, pattern = f"lower({text})", f"lower({pattern})"
    steps = (
        (r"(?s)\\(.)|([^%_\\])", r"\\Q$1$2\\E"),
        (r"(?s)(?<!\\Q)%+((?:[^%]++|(?<=\\Q)%)+)(?<!\\Q)(?=%)", "(?>.*?$1)"),
        (r"(?<!\\Q)%+", ".*"),
        (r"(?<!\\Q)_", "."),
    )

    def matched(p: str) -> str:
        regex = p
        for find, put in steps:
            regex = f"regexp_replace({regex}, {f.string(find)}, {f.string(put)})"
        wrong = f"{p} RLIKE {f.string(_ENDS_WITH_ESCAPE)}"
        return (
            f"IF({wrong}, NULL, {text} RLIKE concat('(?s)^', {regex}, {f.string(chr(92) + 'z')}))"
        )

    return f.let(pattern, matched)


_ENDS_WITH_ESCAPE = r"(?<!\\)(?:\\\\)*\\\z"


def _similar(a: Sequence[str], e: Sequence[Expr]) -> str:
    pattern = required(e[1], "SIMILAR TO with a pattern")
    escape = _escape(e[2], "SIMILAR TO") if len(a) > 2 else "\\"
    if not set(pattern) & set("|*+?{}()[]") and not pattern.endswith(escape or "\0"):
        parts = like_parts(pattern, escape)  # it has nothing that LIKE has not
        if has_backtracking(parts):
            return f"({a[0]} RLIKE {f.string(_atomic(parts))})"
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c == escape and i + 1 < len(pattern):
            i += 1
            out += re.escape(pattern[i])
        elif c == "[":
            text, i = _bracket(pattern, i)
            out += text
            continue
        else:
            out += {
                "%": ".*",
                "_": ".",
                ".": r"\.",
                "^": r"\^",
                "$": r"\$",
                "\\": r"\\",
                "(": "(?:",
            }.get(c, c)
        i += 1
    regex = rf"(?Us)\A(?:{out})\z"
    return f"({a[0]} RLIKE {f.string(regex)})"


def _row(
    name: str,
    args: tuple[t.Type, ...],
    spark: Template,
    result: t.Type = BOOL,
    fallible: bool = False,
) -> Function:
    return Function(name, args, result, spark, fallible=fallible)


ROWS: Rows = (
    _row("~~", (TEXT, TEXT), _like("LIKE")),
    _row("~~", (TEXT, TEXT, TEXT), _like("LIKE")),
    _row("~~*", (TEXT, TEXT), _like("ILIKE")),
    _row("~~*", (TEXT, TEXT, TEXT), _like("ILIKE")),
    _row("similar to", (TEXT, TEXT), _similar),
    _row("similar to", (TEXT, TEXT, TEXT), _similar),
    _row("~", (TEXT, TEXT), _match("")),
    _row("~*", (TEXT, TEXT), _match("i")),
    _row("regexp_like", (TEXT, TEXT, TEXT), _regexp_like),
    _row("regexp_replace", (TEXT, TEXT, TEXT), _regexp_replace, TEXT),
    _row("regexp_replace", (TEXT, TEXT, TEXT, TEXT), _regexp_replace, TEXT),
    _row("regexp_match", (TEXT, TEXT), _regexp_match, t.array(TEXT)),
    _row("regexp_match", (TEXT, TEXT, TEXT), _regexp_match, t.array(TEXT)),
    _row("regexp_count", (TEXT, TEXT), _regexp_count, I4),
    _row("regexp_substr", (TEXT, TEXT), _regexp_substr, TEXT),
    _row("regexp_split_to_array", (TEXT, TEXT), _regexp_split, t.array(TEXT)),
    _row("substring", (TEXT, TEXT), _substring, TEXT),
)  # fmt: skip
