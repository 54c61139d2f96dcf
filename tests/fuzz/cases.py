"""One random batch a call, decoded both ways: the fast way must give what the careful way gives, for every input.

Each `check_…` builds a batch from a seed, raises AssertionError with the seed where the two ways differ, and returns how
many payloads it decoded.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from icestream import types as t
from icestream.connectors.formats import Decoded, FieldSpec, blocks, check_not_null, csv, values
from icestream.connectors.formats import json as plain_json
from tests.fuzz import oracle
from tests.fuzz.generate import Generator

SIZES = (1, 9, 40, 100)


def describe_rows(columns: Sequence[pa.Array], errors: pa.Array | None) -> list[str]:
    """Each row, or its reason, as a text that tells all values apart (-0.0 from 0.0 too)."""
    if not columns:
        return [] if errors is None else [str(e) for e in errors.to_pylist()]
    plain = [_comparable(c).to_pylist() for c in columns]
    rows = [repr(row) for row in zip(*plain, strict=True)]
    reasons = [None] * len(rows) if errors is None else errors.to_pylist()
    return [row if e is None else f"error: {e}" for row, e in zip(rows, reasons, strict=True)]


def _comparable(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def compare(
    seed: int, payloads: Sequence[Any], fast: list[str], careful: list[str], what: Any
) -> int:
    """Raise where the two ways differ."""
    for number, (one, other) in enumerate(itertools.zip_longest(fast, careful)):
        if one != other:
            raise AssertionError(
                f"seed {seed}: {what}\n  payload {payloads[number] if number < len(payloads) else None!r}\n"
                f"  fast    {one}\n  careful {other}"
            )
    return len(payloads)


def make_objects(make: Generator, fields: Sequence[FieldSpec]) -> list[bytes | None]:
    """A batch of JSON objects for those columns, some of them damaged."""
    items = [(f.name, f.type) for f in fields]
    made: list[bytes | None] = []
    for _ in range(make.random.choice(SIZES)):
        payload = make.object(items).encode()
        if make.is_odd():
            payload = make.mutate(payload)
        made.append(None if make.chance(make.odds / 10) else payload)
    return made


# -- FORMAT PLAIN ENCODE JSON ----------------------------------------------------------------------


def check_json(seed: int) -> int:
    """Plain JSON, and what an oracle says of its values."""
    make = Generator(seed)
    fields = make.fields()
    mode = make.random.choice(list(values.NUMBERS))
    payloads = make_objects(make, fields)
    batch = pa.array(payloads, pa.binary())
    careful = blocks.one_by_one(batch, fields, plain_json.Careful(fields, mode).record)
    careful = check_not_null(fields, careful)
    fast = plain_json.JsonDecoder(fields, mode).decode(batch)
    _check_oracle(seed, payloads, fields, fast, mode)
    return compare(
        seed,
        payloads,
        describe_rows(fast.columns, fast.errors),
        describe_rows(careful.columns, careful.errors),
        (fields, mode),
    )


def _check_oracle(
    seed: int,
    payloads: list[bytes | None],
    fields: tuple[FieldSpec, ...],
    found: Decoded,
    mode: str,
) -> None:
    reasons = found.errors.to_pylist() if found.errors is not None else [None] * len(payloads)
    columns = [_comparable(c).to_pylist() for c in found.columns]
    for number, payload in enumerate(payloads):
        object = oracle.parse_object(payload or b"")
        if object is None:
            continue
        for field, column in zip(fields, columns, strict=True):
            if field.name not in object:
                continue
            expected = oracle.expect(field.type, object[field.name], mode)
            where = f"seed {seed}: {field} of {payload!r}: {column[number]!r}, not {expected!r}"
            if expected is oracle.ERROR:
                assert reasons[number] is not None, where
            elif expected is not oracle.SKIP and reasons[number] is None:
                assert repr(_days(column[number])) == repr(expected), where


def _days(value: Any) -> Any:
    return ("days", (value - dt.date(1970, 1, 1)).days) if isinstance(value, dt.date) else value


# -- FORMAT PLAIN ENCODE CSV -----------------------------------------------------------------------


def check_csv(seed: int) -> int:
    """CSV records, and what an oracle says of those without quotes."""
    make = Generator(seed)
    fields = make.fields()
    delimiter = make.random.choice(",;\t|")
    payloads = [_csv_record(make, fields, delimiter) for _ in range(make.random.choice(SIZES))]
    batch = pa.array(payloads, pa.binary())
    careful = blocks.one_by_one(batch, fields, csv.Careful(fields, delimiter).record)
    careful = check_not_null(fields, careful)
    fast = csv.CsvDecoder(fields, delimiter).decode(batch)
    for number, payload in enumerate(payloads):
        error = fast.errors[number].as_py() if fast.errors is not None else None
        if b'"' in payload or not payload.isascii() or set(payload) & {10, 13}:
            continue
        items = payload.decode().split(delimiter)
        assert len(items) == len(fields) or error, f"seed {seed}: {payload!r}"
        for field, column, item in zip(fields, fast.columns, items, strict=False):
            exact = isinstance(field.type, t.NumericType) or field.type in (t.VARCHAR, t.BIGINT)
            expected = oracle.expect(field.type, item or None, "") if exact else oracle.SKIP
            where = f"seed {seed}: {field} of {payload!r} is not {expected!r}"
            if expected is oracle.ERROR:
                assert error, where
            elif expected is not oracle.SKIP and not error:
                assert repr(column[number].as_py()) == repr(expected), where
    return compare(
        seed,
        payloads,
        describe_rows(fast.columns, fast.errors),
        describe_rows(careful.columns, careful.errors),
        (fields, delimiter),
    )


def _csv_record(make: Generator, fields: Sequence[FieldSpec], delimiter: str) -> bytes:
    items = []
    for field in fields:
        text = make.value(field.type)
        if text.startswith('"') and not make.is_odd():
            with contextlib.suppress(ValueError):
                text = str(json.loads(text))
        text = "" if text == "null" else text
        if make.chance(0.02) or set(text) & {delimiter, '"', "\n", "\r"}:
            text = '"' + text.replace('"', '""') + '"'
        items.append(text)
    if make.is_odd():
        items = items[: make.random.randrange(len(items) + 1)]
    record = delimiter.join(items).encode(errors="replace")
    return make.mutate(record) if make.is_odd() else record
