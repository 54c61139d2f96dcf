"""What a statement gives back: a message, or rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from icestream.types import Type


@dataclass(frozen=True)
class Result:
    """The answer to one statement. Rows are plain Python values."""

    message: str | None = None
    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    types: tuple[Type, ...] = ()
    """Those of the columns, where they are known."""
