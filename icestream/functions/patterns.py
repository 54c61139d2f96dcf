"""Pattern matching: LIKE, SIMILAR TO and PostgreSQL's regular expressions on Java's.

Patterns of users are matched by functions of the engine's own (`runtime/java/Regex.java`), never by Spark's: those have no limit.
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
MATCHES, GROUPS, SUBSTRING, COUNT, SPLIT, REPLACE, PROBLEM = (
    f"icestream_regex_{name}"
    for name in ("matches", "groups", "substring", "count", "split", "replace", "problem")
)
LIKE = "icestream_like"
"""Functions of the Spark session. They give NULL for a pattern that is wrong, or takes too many steps."""
_CLASSES = {
    "alpha": r"\p{L}", "digit": r"\p{Nd}", "alnum": r"\p{L}\p{Nd}", "upper": r"\p{Lu}", "lower": r"\p{Ll}",
    "space": r"\s", "punct": r"\p{Punct}", "xdigit": "0-9A-Fa-f", "blank": r" \t", "cntrl": r"\p{Cntrl}",
    "print": r"\p{Print}", "graph": r"\p{Graph}", "word": r"\w",
}  # fmt: skip
_ESCAPES = {"m": r"\b(?=\w)", "M": r"\b(?<=\w)", "y": r"\b", "Y": r"\B", "Z": r"\z", "A": r"\A"}


def java_regex(pattern: str) -> str:
    """A PostgreSQL regular expression as Java writes it."""
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            n = pattern[i + 1]
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
    return lambda a, e: f"{MATCHES}({a[0]}, {_regex(a[1], e[1], flags)})"


def _regexp_like(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"{MATCHES}({a[0]}, {_regex(a[1], e[1], _flags(e, 2, 'regexp_like'))})"


def _flags(e: Sequence[Expr], at: int, what: str) -> str:
    return required(e[at], f"{what} with flags") if len(e) > at else ""


def _regexp_replace(a: Sequence[str], e: Sequence[Expr]) -> str:
    flags = _flags(e, 3, "regexp_replace")
    every = "TRUE" if "g" in flags else "FALSE"
    return f"{REPLACE}({a[0]}, {_regex(a[1], e[1], flags)}, {a[2]}, {every})"


def _constant_regex(e: Sequence[Expr], what: str, flags_at: int = 2) -> str:
    pattern = required(e[1], f"{what} with a pattern")
    return f.string(_modes(_flags(e, flags_at, what)) + java_regex(pattern))


def _substring(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"{SUBSTRING}({a[0]}, {_constant_regex(e, 'substring')}, 1)"


def _regexp_match(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"{GROUPS}({a[0]}, {_constant_regex(e, 'regexp_match')})"


def _regexp_count(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"{COUNT}({a[0]}, {_regex(a[1], e[1])})"


def _regexp_substr(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"{SUBSTRING}({a[0]}, {_regex(a[1], e[1])}, 0)"


def _regexp_split(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"{SPLIT}({a[0]}, {_regex(a[1], e[1])})"


def is_regex(name: str, args: Sequence[Expr]) -> bool:
    """Whether a function of that name takes a regular expression as its second argument."""
    return name in _FLAGS_AT and args[1].type == TEXT


_FLAGS_AT = {
    "~": 2, "~*": 2, "similar to": 2, "regexp_like": 2, "regexp_replace": 3, "regexp_match": 2, "regexp_count": 2, "regexp_substr": 2,
    "regexp_split_to_array": 2, "substring": 2,
}  # fmt: skip


def describe_failure(name: str, a: Sequence[str], e: Sequence[Expr]) -> str:
    """The text of what is wrong with the regular expression of a call that failed."""
    if name == "similar to":
        regex = f.string(_similar_regex(e))
    else:
        flags = "i" if name == "~*" else _flags(e, _FLAGS_AT[name], name)
        regex = _regex(a[1], e[1], flags)
    return f"{PROBLEM}({regex})"


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
        if has_backtracking(parts):
            return _like_any(a[0], f.string(like_pattern(parts)), name)
        return f"({a[0]} {name} {f.string(like_pattern(parts))})"

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


def _literal(part: Segment) -> str:
    return "".join(
        "." if c is None else c if c.isalnum() or c == "_" or not c.isascii() else "\\" + c
        for c in part
    )


def _like_any(text: str, pattern: str, name: str) -> str:
    """LIKE with any pattern, in one pass. NULL if the pattern ends with its escape."""
    if name == "ILIKE":  # compares what both are in lower case
        text, pattern = f"lower({text})", f"lower({pattern})"
    return f"{LIKE}({text}, {pattern})"


def _similar(a: Sequence[str], e: Sequence[Expr]) -> str:
    pattern, escape = _similar_arguments(e)
    if not set(pattern) & set("|*+?{}()[]") and not pattern.endswith(escape or "\0"):
        parts = like_parts(pattern, escape)  # it has nothing that LIKE has not
        if has_backtracking(parts):
            return _like_any(a[0], f.string(like_pattern(parts)), "LIKE")
    return f"{MATCHES}({a[0]}, {f.string(_similar_regex(e))})"


def _similar_arguments(e: Sequence[Expr]) -> tuple[str, str]:
    """The pattern and the escape character."""
    pattern = required(e[1], "SIMILAR TO with a pattern")
    return pattern, _escape(e[2], "SIMILAR TO") if len(e) > 2 else "\\"


def _similar_regex(e: Sequence[Expr]) -> str:
    pattern, escape = _similar_arguments(e)
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
    return rf"(?Us)\A(?:{out})\z"


def _row(
    name: str,
    args: tuple[t.Type, ...],
    spark: Template,
    result: t.Type = BOOL,
    fallible: bool = True,
    finish: str | None = None,
) -> Function:
    return Function(name, args, result, spark, fallible=fallible, finish=finish)


_FIRST = "get({0}, 0)"
"""Of an array that is empty where nothing matched."""
ROWS: Rows = (
    _row("~~", (TEXT, TEXT), _like("LIKE"), fallible=False),
    _row("~~", (TEXT, TEXT, TEXT), _like("LIKE"), fallible=False),
    _row("~~*", (TEXT, TEXT), _like("ILIKE"), fallible=False),
    _row("~~*", (TEXT, TEXT, TEXT), _like("ILIKE"), fallible=False),
    _row("similar to", (TEXT, TEXT), _similar),
    _row("similar to", (TEXT, TEXT, TEXT), _similar),
    _row("~", (TEXT, TEXT), _match("")),
    _row("~*", (TEXT, TEXT), _match("i")),
    _row("regexp_like", (TEXT, TEXT, TEXT), _regexp_like),
    _row("regexp_replace", (TEXT, TEXT, TEXT), _regexp_replace, TEXT),
    _row("regexp_replace", (TEXT, TEXT, TEXT, TEXT), _regexp_replace, TEXT),
    _row("regexp_match", (TEXT, TEXT), _regexp_match, t.array(TEXT), finish=_FIRST),
    _row("regexp_match", (TEXT, TEXT, TEXT), _regexp_match, t.array(TEXT), finish=_FIRST),
    _row("regexp_count", (TEXT, TEXT), _regexp_count, I4),
    _row("regexp_substr", (TEXT, TEXT), _regexp_substr, TEXT, finish=_FIRST),
    _row("regexp_split_to_array", (TEXT, TEXT), _regexp_split, t.array(TEXT)),
    _row("substring", (TEXT, TEXT), _substring, TEXT, finish=_FIRST),
)  # fmt: skip
