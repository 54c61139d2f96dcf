"""The log that statements write."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from icestream.connectors.dml import DmlLog


def entry(*values: int) -> pa.Table:
    return pa.table({"a": list(values)})


def test_entries_are_numbered_and_their_rows_ordered(tmp_path: Path) -> None:
    log = DmlLog.of(tmp_path, "t#1")
    assert log.last() == 0
    assert [log.append(entry(1, 2), [1, 1]), log.append(entry(3), [-1])] == [1, 2]
    rows = [row for n in log.entries() for row in pq.read_table(log.file(n)).to_pylist()]
    assert [row["a"] for row in sorted(rows, key=lambda r: r["_icestream_offset"])] == [1, 2, 3]


def test_what_was_read_is_forgotten_but_numbers_go_on(tmp_path: Path) -> None:
    log = DmlLog.of(tmp_path, "t#1")
    for number in range(3):
        log.append(entry(number), [1])
    log.forget(3)
    assert log.entries() == [3]
    (log.folder / "000000000004.tmp").write_bytes(b"half an entry")
    again = DmlLog.of(tmp_path, "t#1")
    assert again.last() == 3
    assert again.append(entry(9), [1]) == 4
