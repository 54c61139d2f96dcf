"""The log that statements write."""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EIO, ENOSPC, EROFS
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icestream.errors import FencedError, IcestreamError, LakeError
from icestream.lake import dml_log
from icestream.lake.dml_log import DmlLog, TableChanges
from icestream.lake.fold import OFFSET, OP, UNSET


def rows(*values: int, op: int = 1) -> TableChanges:
    return TableChanges(pa.table({"a": pa.array(values, pa.int32())}), [op] * len(values))


def opened(folder: Path, incarnation: int = 1) -> DmlLog:
    log = DmlLog(folder)
    log.open(incarnation)
    return log


def read(log: DmlLog, key: str, start: int = 0, end: int = 1 << 30) -> list[tuple[int, int]]:
    """The values and operations of a table's entries, in the order of the log."""
    found: list[tuple[int, int, int]] = []
    column = dml_log.column_of(key)
    for entry in log.entries(key, start, end):
        for row in pq.read_table(log.path(entry.number)).to_pylist():
            if row[column] is not None:
                found.append((row[OFFSET], row[column]["a"], row[column][OP]))
    return [(value, op) for _, value, op in sorted(found)]


def test_a_transaction_over_tables_is_one_entry(tmp_path: Path) -> None:
    log = opened(tmp_path / "home" / "dml")
    assert log.last("t#1") == 0
    first = log.append({"t#1": rows(1, 2), "u#2": rows(7, op=-1)})
    second = log.append({"t#1": rows(3, op=-1)})
    assert (log.last("t#1"), log.last("u#2"), second) == (second, first, first + 1)
    for each in (log, opened(log.folder, 2)):
        assert read(each, "t#1") == [(1, 1), (2, 1), (3, -1)]
        assert read(each, "t#1", start=first) == [(3, -1)]
        assert read(each, "u#2") == [(7, -1)]


def test_columns_that_a_change_leaves_alone_are_listed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    part = TableChanges(pa.table({"a": [1, 2], "b": ["x", None]}), [1, 1], [[1], None])
    number = log.append({"t#1": part})
    (entry,) = opened(tmp_path, 2).entries("t#1", 0, number)
    assert entry.partial == {"t1"}
    found = pq.read_table(log.path(number))["t1"].to_pylist()
    assert [row[UNSET] for row in found] == [[1], None]


def test_an_entry_is_kept_until_all_its_tables_hold_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    both = log.append({"t#1": rows(1), "u#2": rows(2)})
    last = log.append({"t#1": rows(3)})
    log.forget("t#1", last)
    assert log.path(both).exists()
    log.forget("u#2", last)
    assert not log.path(both).exists()
    assert log.path(last).exists()  # so that numbers go on
    again = opened(tmp_path, 2)
    assert again.append({"t#1": rows(9)}) > last


def test_a_cut_holds_whole_transactions(tmp_path: Path) -> None:
    log = opened(tmp_path)
    first = log.append({"t#1": rows(1), "u#2": rows(1)})
    log.bound()
    log.append({"t#1": rows(2), "u#2": rows(2)})
    assert (log.last_bound("t#1"), log.last_bound("u#2")) == (first, first)


def test_a_process_that_was_paused_appends_nothing_after_its_successor(tmp_path: Path) -> None:
    paused = opened(tmp_path, 1)
    first = paused.append({"t#1": rows(1)})
    successor = opened(tmp_path, 2)
    for _ in range(2):
        with pytest.raises(FencedError):
            paused.append({"t#1": rows(666)})
    for value in (2, 3):
        last = successor.append({"t#1": rows(value)})
    successor.forget("t#1", last)  # the fence's own number is free again
    assert not successor.path(first + 1).exists()
    with pytest.raises(FencedError):
        paused.append({"t#1": rows(666)})
    assert read(opened(tmp_path, 3), "t#1") == [(3, 1)]


def test_what_a_paused_process_linked_before_it_died_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies between taking a number that is free again and looking whether it was too late."""
    paused = opened(tmp_path, 1)
    for incarnation in (2, 3, 4):
        successor = opened(tmp_path, incarnation)
        last = successor.append({"t#1": rows(incarnation)})
        successor.forget("t#1", last)

    class Killed(BaseException):
        pass

    def die(self: DmlLog) -> int:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(DmlLog, "_newest_on_disk", die)
        with pytest.raises(Killed):
            paused.append({"t#1": rows(666)})
    assert len(list(tmp_path.glob("*.parquet"))) == 2  # the stray entry is there
    assert read(DmlLog(tmp_path), "t#1") == [(4, 1)]
    assert read(opened(tmp_path, 5), "t#1") == [(4, 1)]
    assert (4, 1) in read(opened(tmp_path, 6), "t#1")


def failing(errno: int, times: int = 1 << 30) -> Callable[..., None]:
    """A call that fails for its first `times`, then does nothing."""
    left = [times]

    def fail(*arguments: object, **named: object) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno, os.strerror(errno))

    return fail


@pytest.mark.parametrize(("call", "times"), [("os.fsync", 1 << 30), ("sync_folder", 1)])
def test_a_failed_write_changes_nothing(
    call: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    log.append({"t#1": rows(1)})
    for errno, code in ((ENOSPC, "53100"), (EIO, "58030"), (EROFS, "58030")):
        with monkeypatch.context() as patched:
            patched.setattr(f"icestream.lake.dml_log.{call}", failing(errno, times))
            with pytest.raises(IcestreamError, match=os.strerror(errno)) as caught:
                log.append({"t#1": rows(2)})
        assert caught.value.code == code
        assert "nothing was changed" in str(caught.value)
    log.append({"t#1": rows(3)})
    assert read(log, "t#1") == read(opened(tmp_path, 2), "t#1") == [(1, 1), (3, 1)]
    assert not list(tmp_path.glob("*.tmp"))


def unlink_nothing(path: Path, missing_ok: bool = False) -> None:
    if path.exists() or not missing_ok:
        raise OSError(EIO, os.strerror(EIO))


def break_disk(patched: pytest.MonkeyPatch, *, unlink: bool) -> None:
    """Folders cannot be synced; entries cannot be removed if `unlink` is to fail as well."""
    patched.setattr("icestream.lake.dml_log.sync_folder", failing(EIO))
    if unlink:
        patched.setattr(Path, "unlink", unlink_nothing)


@pytest.mark.parametrize("unlink", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_an_entry_that_can_be_neither_synced_nor_removed_has_an_unknown_outcome(
    unlink: bool, restarts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    log.append({"t#1": rows(1)})
    for attempt in range(2):
        with monkeypatch.context() as patched:
            break_disk(patched, unlink=unlink)
            with pytest.raises(IcestreamError) as caught:
                log.append({"t#1": rows(2)})
        is_first = (
            attempt == 0
        )  # the second one cannot remove the first one's entry, and writes nothing
        assert caught.value.code == ("40003" if is_first else "58030")
        assert ("nothing was changed" in str(caught.value)) != is_first
        assert read(log, "t#1") == [(1, 1)]
    if restarts:  # a row whose outcome was unknown may be there
        present = [(1, 1), (2, 1)] if unlink else [(1, 1)]
        assert read(opened(tmp_path, 2), "t#1") == present
        with pytest.raises(FencedError):
            log.append({"t#1": rows(3)})
        assert read(opened(tmp_path, 3), "t#1") == present
        return
    for value in (3, 4):
        log.append({"t#1": rows(value)})
    assert read(log, "t#1") == read(opened(tmp_path, 2), "t#1") == [(1, 1), (3, 1), (4, 1)]
    assert not list(tmp_path.glob("*.tmp"))


def test_a_leftover_of_a_paused_process_is_left_to_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = opened(tmp_path)
    with monkeypatch.context() as patched:
        break_disk(patched, unlink=True)
        with pytest.raises(IcestreamError):
            paused.append({"t#1": rows(2)})
    successor = opened(tmp_path, 2)
    assert read(successor, "t#1") == [(2, 1)]
    with pytest.raises(FencedError):
        paused.append({"t#1": rows(3)})
    assert read(successor, "t#1") == read(opened(tmp_path, 3), "t#1") == [(2, 1)]


def test_a_temporary_name_that_stays_harms_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is durable: that its first name cannot be removed is no failure of the statement."""
    log = opened(tmp_path)
    remove = Path.unlink

    def fail(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".tmp" and path.exists():
            raise OSError(EIO, "Input/output error")
        remove(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", fail)
        for value in (1, 2):
            log.append({"t#1": rows(value)})
    log.append({"t#1": rows(3)})
    assert read(log, "t#1") == read(opened(tmp_path, 2), "t#1") == [(1, 1), (2, 1), (3, 1)]
    assert not list(tmp_path.glob("*.tmp"))


def test_half_an_entry_is_no_entry_and_a_damaged_one_is_an_error(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append({"t#1": rows(1)})
    (tmp_path / "000000000009-77.tmp").write_bytes(b"PAR1 half an entry")
    assert read(opened(tmp_path, 2), "t#1") == [(1, 1)]
    (tmp_path / "000000000009.parquet").write_bytes(b"PAR1 not an entry")
    with pytest.raises(LakeError, match="000000000009"):
        opened(tmp_path, 3)
