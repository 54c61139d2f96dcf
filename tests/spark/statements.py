"""What a statement gives to a connector, made without parsing one."""

from __future__ import annotations

from collections.abc import Mapping

from icestream.catalog.objects import Column
from icestream.errors import Place
from icestream.sql.statements import Option, Options

__all__ = ["Column", "options"]


def options(values: Mapping[str, str]) -> Options:
    """The options of a WITH (…) list."""
    place = Place("test.sql", 1, 1)
    return {key: Option(key, value, place, place) for key, value in values.items()}
