"""Regular expressions in options of connectors: matched by Arrow's RE2, in time linear in the text.

The texts come from records and brokers, so no pattern may take exponential time, as Python's `re` and Java do with (a+)+$. RE2 reads
ordinary patterns as Java does (\\d, \\w and \\s are ASCII); it has no look-around, back-references and possessive quantifiers.
"""

from __future__ import annotations

from collections.abc import Sequence


def whole(pattern: str) -> str:
    """The pattern of texts that match as a whole."""
    return rf"\A(?:{pattern})\z"


def matching(pattern: str, texts: Sequence[str]) -> list[str]:
    """The texts that match as a whole."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.array(texts, pa.string())
    chosen: list[str] = found.filter(pc.match_substring_regex(found, whole(pattern))).to_pylist()
    return chosen


def check(pattern: str) -> None:
    """ValueError with the reason if it is no pattern that RE2 takes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        for text in (pattern, whole(pattern)):
            pc.match_substring_regex(pa.array([""]), text)
    except pa.ArrowInvalid as error:
        raise ValueError(str(error).removeprefix("Invalid regular expression: ")) from None
