"""A file counts once it is complete, and is read exactly as it was recorded."""

from __future__ import annotations

import bz2
import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icestream import types as t
from icestream.connectors import files_read as reading
from icestream.connectors.files_identity import (
    FileEntry,
    Settling,
    Storage,
    check_unchanged,
    is_being_written,
)
from icestream.connectors.files_read import Piece
from icestream.errors import RangeLostError
from icestream.file_access import FileAccess

HERE = Storage()


def entry(path: Path) -> FileEntry:
    found = path.stat()
    return FileEntry(str(path), found.st_size, found.st_mtime_ns // 1000)


def read(file: FileEntry) -> list[bytes]:
    batches = reading.line_batches(HERE, [Piece(file)], ["value"], None, "s")
    return [value for batch in batches for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)]
)
def test_a_file_is_read_by_its_ending(
    tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a.json{ending}"
    path.write_bytes(pack(b"1\n2\n3"))
    assert read(entry(path)) == [b"1", b"2", b"3"]


def test_a_rewrite_of_equal_size_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("1\n2\n")
    os.utime(path, (1, 1))
    file = entry(path)
    assert read(file) == [b"1", b"2"]
    path.write_text("3\n4\n")
    with pytest.raises(RangeLostError, match=r"a\.json was written again"):
        read(file)


def test_bytes_appended_while_it_is_read_are_left_out_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK", 4)
    path = tmp_path / "a.json"
    path.write_text("1\n2\n" * 10)
    batches = reading.line_batches(HERE, [Piece(entry(path))], ["value"], None, "s")
    values = next(batches).column(0).to_pylist()
    with path.open("a") as more:
        more.write("9\n" * 100)
    with pytest.raises(RangeLostError, match="had 40 bytes and has 240 now"):
        values.extend(v for batch in batches for v in batch.column(0).to_pylist())
    assert set(values) == {b"1", b"2"}


def test_a_parquet_file_that_is_replaced_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(50_000)}), path)
    batches = reading.parquet_batches(HERE, [Piece(entry(path))], [("a", t.BIGINT)], "s")
    next(batches)
    other = tmp_path / "_other"
    pq.write_table(pa.table({"a": range(3)}), other)
    other.rename(path)
    with pytest.raises(RangeLostError, match=r"a\.parquet"):
        list(batches)


def test_an_object_that_was_uploaded_again_with_the_same_content_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text("1\n")
    os.utime(path, (1, 1))
    known = FileEntry(str(path), 2, 2_000_000, etag="abc")
    from icestream.connectors import files_identity

    monkeypatch.setattr(files_identity, "_etag", lambda opened: "abc")
    check_unchanged(HERE, HERE.open(), [known], "s")
    monkeypatch.setattr(files_identity, "_etag", lambda opened: "xyz")
    with pytest.raises(RangeLostError, match="was written again"):
        check_unchanged(HERE, HERE.open(), [known], "s")


WRITER = """
import sys
with open(sys.argv[1], "w") as out:
    out.write("1\\n")
    out.flush()
    print("open", flush=True)
    sys.stdin.readline()
    out.write("2\\n")
print("closed", flush=True)
"""


def test_a_file_that_another_process_writes_is_not_settled(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        os.utime(path, (1, 1))  # however old it looks
        settling = Settling()
        assert is_being_written(str(path))
        assert settling.settled([entry(path)]) == []
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "closed\n"
        assert settling.settled([entry(path)]) == [entry(path)]
        assert read(entry(path)) == [b"1", b"2"]


def test_where_writers_cannot_be_seen_a_file_must_be_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from icestream.connectors import files_identity

    monkeypatch.setattr(files_identity, "is_being_written", lambda path: None)
    now = [100.0]
    monkeypatch.setattr(files_identity.time, "monotonic", lambda: now[0])
    path = tmp_path / "a.json"
    path.write_text("1\n")
    ahead = time.time() + 3600  # a server whose clock is ahead
    os.utime(path, (ahead, ahead))
    settling = Settling()
    assert settling.settled([entry(path)]) == []
    path.write_text("1\n2\n")
    os.utime(path, (ahead, ahead))
    now[0] += 1.5
    assert settling.settled([entry(path)]) == []
    now[0] += 1.5
    assert settling.settled([entry(path)]) == []
    now[0] += 1.0
    assert settling.settled([entry(path)]) == [entry(path)]


def test_old_files_are_settled_at_once_where_writers_cannot_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from icestream.connectors import files_identity

    monkeypatch.setattr(files_identity, "is_being_written", lambda path: None)
    path = tmp_path / "a.json"
    path.write_text("1\n")
    os.utime(path, (1, 1))
    assert Settling().settled([entry(path)]) == [entry(path)]


def test_a_file_is_checked_again_when_it_is_read(tmp_path: Path) -> None:
    """A link in its place, to a file of the same size and time, is not followed."""
    home, data = tmp_path / "home", tmp_path / "data"
    home.mkdir()
    data.mkdir()
    path, secret = data / "a.json", home / "secrets.json"
    for each, text in ((path, "1\n2\n"), (secret, "3\n4\n")):
        each.write_text(text)
        os.utime(each, (1, 1))
    file = entry(path)
    guarded = Storage(access=FileAccess.of(home, [data]))
    batches = reading.line_batches(guarded, [Piece(file)], ["value"], None, "s")
    assert next(batches).column(0).to_pylist() == [b"1", b"2"]
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(RangeLostError, match="into the home"):
        list(reading.line_batches(guarded, [Piece(file)], ["value"], None, "s"))
