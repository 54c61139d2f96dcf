"""Batches that are spooled come back in their order, from memory or from a file that leaves nothing behind."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from icestream.functions.far_dates import FarDate, FarTimestamp
from icestream.runtime.query import values_of
from icestream.runtime.spool import Rows, Spool
from icestream.types import (
    DATE,
    INTEGER,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    array,
    struct,
)

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


def test_years_that_python_does_not_have() -> None:
    days = [-1_456_730, 0, None, 35_795_000, -719_162, 2_932_896]
    found = values_of(pa.array(days, pa.int32()).cast(pa.date32()), DATE)
    assert found == [FarDate(days[0]), date(1970, 1, 1), None, FarDate(days[3]), date.min, date.max]  # type: ignore[arg-type]
    assert (str(found[0]), str(found[3])) == ("2020-08-11 BC", "99973-05-20")
    micros = [-(2**56), None, 0]
    for kind, zone, shown in ((TIMESTAMP, None, ""), (TIMESTAMPTZ, "UTC", "+00")):
        column = pa.array(micros, pa.timestamp("us", zone))
        start = datetime(1970, 1, 1, tzinfo=UTC if zone else None)
        assert values_of(column, kind) == [FarTimestamp(-(2**56), bool(zone)), None, start]
        assert str(values_of(column, kind)[0]) == f"0315-08-02 01:39:22.072064{shown} BC"
    lists = pa.array([[days[0], None], None, [0]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    nested = [[FarDate(-1_456_730), None], None, [date(1970, 1, 1)]]
    assert values_of(lists, array(DATE)) == nested
    rows = pa.StructArray.from_arrays([lists], ["l"], mask=pa.array([False, False, True]))
    assert values_of(rows, struct(("l", array(DATE)))) == [
        {"l": nested[0]},
        {"l": None},
        None,
    ]


def test_the_end_of_a_day_is_a_time() -> None:
    assert values_of(pa.array([86_400_000_000], pa.int64()), TIME) == [86_400_000_000]
