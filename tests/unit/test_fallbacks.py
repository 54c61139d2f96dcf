"""Counters of what went to Spark."""

from __future__ import annotations

from pathlib import Path

from icestream.config import Home
from icestream.fallbacks import MOST_REASONS, OTHER, FallbackCounter
from icestream.observe import status


def test_reasons_are_counted_and_bounded() -> None:
    counter = FallbackCounter("query")
    for number in range(MOST_REASONS + 5):
        counter.count(f"reason {number}")
    counter.count("reason 7")
    counts = counter.counts()
    assert list(counts.items())[:2] == [(OTHER, 5), ("reason 7", 2)]
    assert len(counts) == MOST_REASONS + 1


def test_the_status_has_them(tmp_path: Path) -> None:
    home = Home.at(tmp_path)
    told = [status.FallbackStatus("query", "a large result", 2)]
    status.write(home, status.Status(fallbacks=told))
    assert status.read(home).fallbacks == told
