"""Records of CSV files: joined lines, stray quotes, headers. The oracle is Python's csv module."""

from __future__ import annotations

import csv
import io
import random
import time
from typing import Any

import pyarrow as pa
import pytest

from icestream import types as t
from icestream.connectors import csv_records, files_read
from icestream.connectors.formats import FieldSpec
from icestream.connectors.formats.csv import CsvDecoder, split
from tests.seeds import choose_length

Row = tuple[Any, ...] | str


def read(data: bytes, *names: str, header: bool = False, chunk: int | None = None) -> list[Row]:
    """The rows of a file of text columns, and the reasons of the records that fail."""
    layout = files_read.CsvLayout(",", names, header)
    before, files_read.CHUNK = files_read.CHUNK, chunk or files_read.CHUNK
    try:
        found = list(files_read._csv_records(io.BytesIO(data), layout))
    finally:
        files_read.CHUNK = before
    decoder = CsvDecoder(tuple(FieldSpec(n, t.VARCHAR) for n in names))
    result: list[Row] = []
    for _, payloads, written in found:
        headers = pa.repeat(pa.scalar(written, pa.binary()), len(payloads))
        decoded = decoder.decode_below(headers, payloads)
        rows = list(zip(*(c.to_pylist() for c in decoded.columns), strict=True))
        errors = decoded.errors.to_pylist() if decoded.errors is not None else [None] * len(rows)
        result += [e or row for row, e in zip(rows, errors, strict=True)]
    return result


def test_a_stray_quote_costs_one_line() -> None:
    good = b"".join(b"%d,x\n" % n for n in range(5))
    rows = [(str(n), "x") for n in range(5)]
    not_closed = "a quote is not closed"
    assert read(good + b'5,6" disk\n' + good, "a", "b") == [*rows, ("5", '6" disk'), *rows]
    assert read(good + b'5,"oops\n' + good, "a", "b") == [*rows, not_closed, *rows]
    assert read(good + b'5,"oops\n' + good + b'6,"q"\n' + good, "a", "b") == [
        *rows, not_closed, *rows, ("6", "q"), *rows,
    ]  # fmt: skip
    assert read(good + b'5,"oops\n' + good + b'6,end"\n' + good, "a", "b", "c")[5] == not_closed
    assert read(b'a,b\n"x\n1,2\n3,"4"\n', "a", "b", header=True) == [
        not_closed, ("1", "2"), ("3", "4"),
    ]  # fmt: skip


NAMES_NONE = (
    "the header line of the file names none of the columns: "
    "a file without a header needs without_header = 'true'"
)
NO_HEADER = "the header line of the file is not valid: more than one record"


@pytest.mark.parametrize("chunk", [1, 3, 7, None])
@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"1,2,3\n4,5,6\n", [NAMES_NONE] * 2),
        (b"x,y,z\n1,2,3\n", [NAMES_NONE] * 2),
        (b"x,y,z\n", [NAMES_NONE]),
        (b"a,b,c\r1,2,3\r4,5,6\r", [NO_HEADER]),
        (b"a,b,c\r1,2,3\n4,5,6\n", [NO_HEADER] * 2),
        (b"x,B,z\n1,2,3\n", [(None, "2", None)]),
        (b'c,b,a\n1,"x\n\xff\xffboo",3\n', ["the payload is not UTF-8"]),
        (b'a,b,c\n1,"x\n\xff\xffboo",3\n', ["the payload is not UTF-8"]),
        (b"c,b,a\n1,2\n4,5,6\n", ["2 fields where the header has 3", ("6", "5", "4")]),
    ],
)
def test_headers(data: bytes, rows: list[Row], chunk: int | None) -> None:
    assert read(data, "a", "b", "c", header=True, chunk=chunk) == rows


def test_records_of_several_files_have_their_own_headers() -> None:
    decoder = CsvDecoder((FieldSpec("a", t.INTEGER), FieldSpec("b", t.VARCHAR)), headed=True)
    headers = [b"b,a", b"b,a", b"x,a,b", None, b"x,y", b"b,a"]
    records = [b"x,1", b'"y,z",2', b"-,3,w", b"4,v", b"5,u", b"t,no"]
    found = decoder.decode_below(pa.array(headers, pa.binary()), pa.array(records, pa.binary()))
    assert list(zip(*(c.to_pylist() for c in found.columns), strict=True)) == [
        (1, "x"), (2, "y,z"), (3, "w"), (4, "v"), (None, None), (None, None),
    ]  # fmt: skip
    assert found.errors is not None
    assert found.errors.to_pylist() == [
        *[None] * 4, NAMES_NONE, "a: 'no' is not a valid integer",
    ]  # fmt: skip
    many = pa.repeat(pa.scalar(b"-,7,w", pa.binary()), 1000)
    found = decoder.decode_below(pa.repeat(pa.scalar(b"x,a,b", pa.binary()), 1000), many)
    assert found.columns[0].to_pylist() == [7] * 1000


def test_line_breaks_between_quotes_stay_as_they_are() -> None:
    data = b'1,"a\r\nb"\r\n2,"a\nb"\r\n3,"\r\n\r\n"\r\n\r\n4,x\r\n'
    expected = [("1", "a\r\nb"), ("2", "a\nb"), ("3", "\r\n\r\n"), ("4", "x")]
    assert read(data, "a", "b") == expected
    assert read(b"b,a\r\n" + data, "b", "a", header=True) == expected
    flipped = [(y, x) for x, y in expected]
    assert read(b"b,a\r\n" + data, "a", "b", header=True) == flipped


def test_a_row_of_another_width_than_the_header() -> None:
    """Never decoded in the declared order: its fields cannot be told apart."""
    data = b'b,a,c\n1,2\n3,4,5\n1,2,3,4\n"q",x\n'
    assert read(data, "a", "b", header=True) == [
        "2 fields where the header has 3",
        ("4", "3"),
        "4 fields where the header has 3",
        "2 fields where the header has 3",
    ]


def test_a_header_that_cannot_be_read() -> None:
    found = read(b'a,"b\n1,2\n3,4\n', "a", "b", header=True)
    reason = "the header line of the file is not valid: a quote is not closed"
    assert found == [reason, reason]
    assert read(b"a,b,\xff\n1,2,3\n", "a", "b", header=True) == [("1", "2")]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "line", [b'a,"b\n', b'",z\n', b'a,""b\n', b'"\n', b'""""\n', b'x,"""a\n', b'a,"b""\n', b"a,b\n", b'x",y,"z\n']
)  # fmt: skip
def test_time_is_linear(line: bytes) -> None:
    """Twice as many lines take about twice as long, whatever the first line opens."""

    def measure(count: int) -> float:
        started = time.process_time()
        read(b'1,"\n' + line * count, "a", "b", "c")
        return time.process_time() - started

    count = choose_length(2_000, 10_000)
    measure(1000)
    small, large = measure(count), measure(4 * count)
    assert large < 12 * small + 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("header", [b"", b"a,b,c\n", b'a",b,"c\n', b'"a\n'])
@pytest.mark.parametrize(
    "line", [b'x",y,"z\n', b'","\n', b'x",y,"z\nplain\n', b'"x",y,"z\n', b'x,"y\n",\n']
)
def test_lines_that_leave_a_quote_open_either_way(header: bytes, line: bytes) -> None:
    """They begin in a quote, or do not: at their end one is open."""
    count = choose_length(8_000, 50_000) // line.count(b"\n")
    started = time.process_time()
    found = read(header + line * count, "a", "b", "c", header=bool(header))
    assert time.process_time() - started < 10
    assert len(found) >= count


@pytest.mark.parametrize("seed", range(200))
def test_a_stray_quote_costs_its_line(seed: int) -> None:
    """Against a slow reading that tries every number of lines as a record."""
    rng = random.Random(seed)
    pieces = ["a", '"', ",", '","', '""', "\n", '\n"', '",\n', "a,b\n", '"x\ny",z\n']
    data = "".join(rng.choices(pieces, k=rng.randint(0, 40))).encode()
    for names in (("a", "b"), ("a", "b", "c")):
        assert read(data, *names) == _read_slowly(data, *names)


def _read_slowly(data: bytes, *names: str) -> list[Row]:
    """A line that opens a quote goes up to the line that closes it, if that makes a record; else it stands alone."""
    lines = data.split(b"\n")
    decoder = CsvDecoder(tuple(FieldSpec(n, t.VARCHAR) for n in names))
    result: list[Row] = []
    while lines:
        taken = 1
        for count in range(2, len(lines) + 1):
            try:
                items = split(b"\n".join(lines[:count]).decode().removesuffix("\r"), ",")
            except ValueError as error:
                if "not closed" in str(error):
                    continue
                break
            before = b"\n".join(lines[: count - 1]).decode().removesuffix("\r")
            taken = count if len(items) == len(names) and _is_open(before) else 1
            break
        record = b"\n".join(lines[:taken]).removesuffix(b"\r")
        del lines[:taken]
        if record:
            decoded = decoder.decode(pa.array([record], pa.binary()))
            error = decoded.errors[0].as_py() if decoded.errors is not None else None
            result.append(error or tuple(c[0].as_py() for c in decoded.columns))
    return result


def _is_open(text: str) -> bool:
    try:
        split(text, ",")
    except ValueError as error:
        return "not closed" in str(error)
    return False


@pytest.mark.parametrize("seed", range(60))
def test_what_pythons_csv_module_writes(seed: int) -> None:
    """Fields with quotes, delimiters and line breaks, whatever the chunks of the file are."""
    rng = random.Random(seed)
    names = ["a", "b", "c", "d"][: rng.randint(1, 4)]
    text = ["x", "", '"', ",", "\n", "\r\n", " ", "é", '""', '",', "\r", "long" * 20]
    rows = [
        ["".join(rng.choices(text, k=rng.randint(0, 3))) for _ in names]
        for _ in range(rng.randint(1, 30))
    ]
    out = io.StringIO()
    end = rng.choice(["\n", "\r\n"])
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=end)
    header = rng.random() < 0.5
    order = rng.sample(range(len(names)), len(names)) if header else list(range(len(names)))
    if header:
        writer.writerow([names[i] for i in order])
    writer.writerows([[row[i] for i in order] for row in rows])
    data = out.getvalue().encode()
    assert list(csv.reader(io.StringIO(data.decode(), newline="")))[int(header) :] == [
        [row[i] for i in order] for row in rows
    ]
    for chunk in (1, 7, None):
        assert read(data, *names, header=header, chunk=chunk) == [tuple(row) for row in rows]


@pytest.mark.parametrize("seed", range(100))
def test_random_text_does_not_depend_on_chunks(seed: int) -> None:
    """Any text: the same records for every size of the chunks, and no line is lost."""
    rng = random.Random(seed)
    pieces = ["a", "b,", '"', ",", "\n", "\r\n", '""', '","', '"\n"', "1,2\n"]
    data = "".join(rng.choices(pieces, k=rng.randint(0, 60))).encode()
    names, header = ("a", "b"), rng.random() < 0.5
    whole = read(data, *names, header=header)
    for chunk in (1, 2, 5):
        assert read(data, *names, header=header, chunk=chunk) == whole
    layout = files_read.CsvLayout(",", names, False)
    found = list(files_read._csv_records(io.BytesIO(data), layout))
    kept = b"".join(r for _, records, _ in found for r in records.to_pylist())
    assert sorted(kept.translate(None, b"\r\n")) == sorted(data.translate(None, b"\r\n"))


def test_a_record_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "MAX_RECORD", 50)
    data = b'1,"a\n' + b"2,x\n" * 30 + b'3,"b\nc"\n'
    assert read(data, "a", "b") == [
        "a quote is not closed", *[("2", "x")] * 30, ("3", "b\nc"),
    ]  # fmt: skip
