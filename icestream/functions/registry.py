"""All functions and operators, by name: the one place that says what the dialect can compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from icestream.functions import (
    aggregates,
    arrays,
    json,
    logic,
    numbers,
    patterns,
    strings,
    times,
    windows,
)
from icestream.functions.function import Function, Rows

THEMES = (logic, numbers, strings, patterns, times, json, arrays, aggregates, windows)


def _collect(rows: Iterable[Function]) -> Mapping[str, Rows]:
    by_name: dict[str, list[Function]] = {}
    for row in rows:
        taken = row.name in by_name and by_name[row.name][0].kind != "window"
        name = f"over:{row.name}" if row.kind == "window" and taken else row.name
        by_name.setdefault(name, []).append(row)
    return MappingProxyType({name: tuple(found) for name, found in by_name.items()})


REGISTRY: Mapping[str, Rows] = _collect(row for theme in THEMES for row in theme.ROWS)
