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
        escape = required(e[2], "LIKE with an escape") if len(a) > 2 else "\\"
        pattern = constant(e[1])
        if pattern is not None:
            text = f.string(like_pattern(pattern, escape))
        else:
            if escape != "\\":
                raise ValueError("LIKE with a pattern that is not a constant and an ESCAPE")
            stray = "'\\\\\\\\([^%_\\\\\\\\])'"
            text = f"regexp_replace({a[1]}, {stray}, '$1')"
        return f"({a[0]} {name} {text})"

    return template


def like_pattern(pattern: str, escape: str) -> str:
    """A LIKE pattern with the escape \\, and only where it is needed."""
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if escape and c == escape:
            if i + 1 == len(pattern):
                raise ValueError("a LIKE pattern that ends with its escape character")
            i += 1
            out += ("\\" if pattern[i] in "%_\\" else "") + pattern[i]
        else:
            out += "\\\\" if c == "\\" else c
        i += 1
    return out


def _similar(a: Sequence[str], e: Sequence[Expr]) -> str:
    pattern = required(e[1], "SIMILAR TO with a pattern")
    escape = required(e[2], "SIMILAR TO with an escape") if len(a) > 2 else "\\"
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
