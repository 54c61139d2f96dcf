"""Batches that are spooled come back in their order, from memory or from a file that leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from icestream.runtime.spool import Rows, Spool
from icestream.types import INTEGER, VARCHAR

BATCHES = [
    pa.record_batch({"a": pa.array(range(n, n + 5), pa.int32()), "b": pa.array(["x", None, "y", "z", "é"])})
    for n in (10, 0, 5)
]  # fmt: skip


@pytest.mark.parametrize("bound", [0, BATCHES[0].nbytes, 1 << 20])
def test_rows_in_order(tmp_path: Path, bound: int) -> None:
    spool = Spool(tmp_path, bound)
    for batch in BATCHES:
        spool.add(batch)
    spool.finish([1, 2, 0])
    assert spool.spilled == (bound < 1 << 20)
    rows = Rows(spool, [INTEGER, VARCHAR])
    assert next(rows) == (0, "x")
    assert [a for a, _ in rows] == list(range(1, 15))
    assert list(rows) == []
    assert list(tmp_path.iterdir()) == []


def test_closed_before_its_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 0)
    spool.add(BATCHES[0])
    spool.finish([0])
    rows = Rows(spool, [INTEGER, VARCHAR])
    next(rows)
    rows.close()
    assert list(tmp_path.iterdir()) == []


def test_nothing_at_all(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 0)
    spool.finish([])
    assert list(Rows(spool, [INTEGER])) == []
