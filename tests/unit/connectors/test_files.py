"""File sources without Spark: which files match, and how lines and records are cut."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream import types as t
from icestream.connectors import files_read as reading
from icestream.connectors.files_identity import FileEntry, Storage
from icestream.connectors.files_options import (
    FILE_OPTIONS,
    S3_OPTIONS,
    check_file,
    check_s3,
    matcher,
    static_folder,
    storage,
)
from icestream.connectors.files_read import CsvLayout, Piece, conform
from icestream.errors import Place, SqlError
from icestream.sql.options import Settings, check
from icestream.sql.statements import Option

PLACE = Place("f.sql", 1, 1)


def settings(specs: Any, **values: str) -> Settings:
    named = {k.replace("__", "."): v for k, v in values.items()}
    options = {k: Option(k, v, PLACE, PLACE) for k, v in named.items()}
    return check(options, specs, what="source s", env={})


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (None, ["a.json", "x/y.csv"], [".a", "_a", "x/_tmp/a", ".x/a", "a.tmp", "x/a.crdownload"]),
        ("*.json", ["a.json", "x/y/a.json"], ["a.json.gz", "json", "_a.json"]),
        ("x/*.json", ["x/a.json"], ["a.json", "x/y/a.json", "y/x/a.json"]),
        ("**/*.json", ["a.json", "x/y/a.json"], ["a.csv"]),
        ("x/**", ["x/a", "x/y/a"], ["a", "y/x/a"]),
        ("part-?.{csv,json}", ["part-1.csv", "z/part-2.json"], ["part-10.csv", "part-1.txt"]),
        ("*.json{,.gz}", ["a.json", "a.json.gz"], ["a.json.bz2"]),
        ("[a-c]*[!0-9].x", ["b-b.x"], ["d-b.x", "b-1.x"]),
        ("a+b(1).json", ["a+b(1).json"], ["aab1.json"]),
    ],
)
def test_patterns(pattern: str | None, yes: list[str], no: list[str]) -> None:
    matches = matcher(pattern)
    assert [p for p in yes if not matches(p)] == []
    assert [p for p in no if matches(p)] == []


def test_only_the_fixed_folders_are_listed() -> None:
    assert static_folder(None) == static_folder("*.json") == static_folder("*/a/b.json") == ""
    assert static_folder("logs/2024/*/x.json") == "logs/2024"
    assert static_folder("logs/a{b,c}/x") == "logs"


def test_options() -> None:
    check_file(settings(FILE_OPTIONS, posix_fs__root="/data", match_pattern="*.json"))
    with pytest.raises(SqlError, match="an absolute path"):
        check_file(settings(FILE_OPTIONS, path="data"))
    with pytest.raises(SqlError, match="is not closed"):
        check_file(settings(FILE_OPTIONS, path="/d", match_pattern="[a"))
    with pytest.raises(SqlError, match="relative to the directory"):
        check_file(settings(FILE_OPTIONS, path="/d", match_pattern="/a"))
    with pytest.raises(SqlError, match="both or neither"):
        check_s3(settings(S3_OPTIONS, s3__bucket_name="b", s3__credentials__access="k"))
    given = settings(
        S3_OPTIONS,
        s3__bucket_name="b",
        s3__credentials__access="k",
        s3__credentials__secret="geheim",
        s3__endpoint_url="http://127.0.0.1:1",
    )
    check_s3(given)
    place = storage(given)
    assert place.location("x/y") == "b/x/y"
    assert "geheim" not in repr(place)
    assert place.open().type_name == "s3"


def lines(data: bytes) -> list[tuple[int, bytes]]:
    return [
        pair
        for numbers, payloads, _ in reading._line_records(io.BytesIO(data))
        for pair in zip(numbers.to_pylist(), payloads.to_pylist(), strict=True)
    ]


def records(data: bytes, *names: str, header: bool = False) -> list[tuple[int, bytes]]:
    layout = CsvLayout(",", names, header)
    return [
        pair
        for numbers, payloads, _ in reading._csv_records(io.BytesIO(data), layout)
        for pair in zip(numbers.to_pylist(), payloads.to_pylist(), strict=True)
    ]


def test_lines() -> None:
    assert lines(b"") == []
    assert lines(b"a\n\nb\r\nc") == [(0, b"a"), (2, b"b"), (3, b"c")]
    assert lines(b"\xef\xbb\xbfa\n") == [(0, b"a")]


@given(
    st.lists(st.binary(max_size=9).filter(lambda b: b"\n" not in b and b"\r" not in b)),
    st.integers(1, 7),
)
def test_lines_do_not_depend_on_the_chunk(some: list[bytes], chunk: int) -> None:
    data = b"\n".join(some)
    before, reading.CHUNK = reading.CHUNK, chunk
    try:
        found = lines(data)
    finally:
        reading.CHUNK = before
    data = data.removeprefix(b"\xef\xbb\xbf")
    assert found == [(i, line) for i, line in enumerate(data.split(b"\n")) if line]


@given(st.text(alphabet='ab,"\n', max_size=40), st.integers(1, 7))
def test_records_do_not_depend_on_the_chunk(text: str, chunk: int) -> None:
    whole = records(text.encode())
    before, reading.CHUNK = reading.CHUNK, chunk
    try:
        assert records(text.encode()) == whole
    finally:
        reading.CHUNK = before
    assert b"".join(r for _, r in whole).replace(b"\n", b"") == text.encode().replace(b"\n", b"")


def test_csv_records() -> None:
    assert records(b'1,"a\nb"\n\n2,c\n3,"open\n4') == [
        (0, b'1,"a\nb"'),
        (3, b"2,c"),
        (4, b'3,"open'),
        (5, b"4"),
    ]
    assert records(b"a,b\n1,2\n", "a", "b", header=True) == [(1, b"1,2")]
    assert records(b'b,x,A\n1,2,"q""r"\nbad\n', "a", "b", "c", header=True) == [
        (1, b'1,2,"q""r"'),  # as they came, for dead letters
        (2, b"bad"),
    ]
    assert records(b"a,b\n", "a", "b", header=True) == []


def test_files_become_raw_records(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("1\n2\n3\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    piece = Piece(FileEntry(str(path), 6, 1_700_000_000_000_000))
    batches = list(
        reading.line_batches(Storage(), [piece], ["value", "offset", "headers"], None, "s")
    )
    table = pa.Table.from_batches(batches)
    assert table["offset"].to_pylist() == [0, 1, 2]
    assert table["value"].to_pylist() == [b"1", b"2", b"3"]
    assert table["headers"].null_count == 3


def test_conform() -> None:
    assert conform(pa.array([1, 2], pa.int8()), t.BIGINT).type == pa.int64()
    nanos = pa.array([1_700_000_000_000_000_001], pa.timestamp("ns"))
    assert conform(nanos, t.TIMESTAMPTZ).type == pa.timestamp("us", "UTC")
    assert conform(pa.array(["2024-01-01"]), t.DATE).to_pylist()[0].year == 2024
    assert conform(pa.array(['{"b": 1, "a":2}', None]), t.JSONB).to_pylist() == [
        '{"a": 2, "b": 1}',
        None,
    ]
    with pytest.raises(pa.ArrowInvalid):
        conform(pa.array([70_000]), t.SMALLINT)
