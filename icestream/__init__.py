"""icestream: Kafka topics, change logs and files become Apache Iceberg tables, continuously and exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icestream.api import connect as connect

__version__ = "0.1.0"

__all__ = ["__version__", "connect"]


def __getattr__(name: str) -> Any:
    """`icestream.connect`, imported when it is asked for."""
    if name == "connect":
        from icestream.api import connect

        return connect
    raise AttributeError(name)
