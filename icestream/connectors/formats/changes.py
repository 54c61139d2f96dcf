"""Changes of rows with a key: what the formats that give them share, and plain rows as upserts.

A format reads each record into one `Outcomes` entry; here those become changes: a delete finds its row by the
record's key where the payload does not tell, a row whose key changed is a delete and an upsert.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors.formats import Changes, Decoded, Decoder, FieldSpec, blocks, values
from icestream.connectors.formats import connect_json as connect
from icestream.connectors.formats.csv import below_headers
from icestream.connectors.formats.json import document, sampled
from icestream.connectors.formats.json_fast import Columns
from icestream.lake.fold import DELETE, UPSERT

BY_KEY, MOVED = 10, 11
"""Outcomes beside UPSERT, DELETE and TRUNCATE: a delete by the record's key, an upsert under another key than before."""


@dataclass(frozen=True)
class Outcomes:
    """What each record of a batch does: one entry a record. `op` is NULL for one that does nothing."""

    columns: list[pa.Array]
    op: pa.Int16Array
    errors: pa.StringArray | None
    unset: pa.ListArray | None = None
    old: Sequence[pa.Array] = ()
    """The key columns before a MOVED."""

    def taken(self, at: pa.Array, op: pa.Array) -> Outcomes:
        """The entries at those places (NULL: nothing), with other ops."""
        return Outcomes(
            [c.take(at) for c in self.columns],
            op,
            None if self.errors is None else self.errors.take(at),
            None if self.unset is None else self.unset.take(at),
            [c.take(at) for c in self.old],
        )


def with_tombstones(
    payloads: pa.BinaryArray, op: pa.Array, read: Callable[[pa.BinaryArray], Outcomes]
) -> Outcomes:
    """`read` of the payloads that are there; for the others what `op` says, one entry a record."""
    if not payloads.null_count:
        return read(payloads)
    there = payloads.is_valid()
    found = read(payloads.filter(there))
    place = np.cumsum(there.to_numpy(zero_copy_only=False)) - 1
    at = pc.if_else(there, pa.array(place, pa.int64()), None)
    return found.taken(at, pc.if_else(there, found.op.take(at), op))


def changes(
    fields: tuple[FieldSpec, ...],
    outcomes: Outcomes,
    keys: pa.BinaryArray,
    key_decoder: Decoder | None = None,
) -> Changes:
    """The changes that the outcomes come to. Also the check of what may not be NULL."""
    if key_decoder is not None:
        outcomes = _by_key(fields, outcomes, keys, key_decoder)
    errors = _check(fields, outcomes)
    op = outcomes.op
    good = op.is_valid() if errors is None else pc.and_(op.is_valid(), errors.is_null())
    moved = pc.fill_null(pc.and_(good, pc.equal(op, MOVED)), False)
    columns, unset = outcomes.columns, outcomes.unset
    if not pc.any(moved).as_py():
        record = pa.array(np.arange(len(op), dtype=np.int32))
        if not pc.all(good).as_py():
            columns = [c.filter(good) for c in columns]
            op, record = op.filter(good), record.filter(good)
            unset = None if unset is None else unset.filter(good)
        return Changes(columns, op.cast(pa.int8()), record, unset, errors)
    is_moved = moved.to_numpy(zero_copy_only=False)
    entries = np.flatnonzero(good.to_numpy(zero_copy_only=False))
    rows = np.repeat(entries, 1 + is_moved[entries])
    leaves = np.concatenate([rows[1:] == rows[:-1], [False]])  # the first of two
    return Changes(
        _moved_columns(fields, outcomes, rows, leaves),
        pa.array(
            np.where(leaves, DELETE, np.where(is_moved[rows], UPSERT, op.take(rows))), pa.int8()
        ),
        pa.array(rows, pa.int32()),
        None if unset is None else unset.take(pa.array(rows, mask=leaves)),
        errors,
    )


def _moved_columns(
    fields: tuple[FieldSpec, ...], outcomes: Outcomes, rows: Any, leaves: Any
) -> list[pa.Array]:
    """The columns of those rows; those that leave have their old key and what INCLUDE took, nothing else."""
    old = iter(outcomes.old)
    columns = []
    for field, column in zip(fields, outcomes.columns, strict=True):
        if field.source is not None:
            columns.append(column.take(pa.array(rows)))
        elif field.key:
            both = pa.concat_arrays([column, next(old)])
            columns.append(both.take(pa.array(rows + leaves * len(column))))
        else:
            columns.append(column.take(pa.array(rows, mask=leaves)))
    return columns


def _by_key(
    fields: tuple[FieldSpec, ...], outcomes: Outcomes, keys: pa.BinaryArray, key_decoder: Decoder
) -> Outcomes:
    """The outcomes with the keys of those that are told by the record's key alone."""
    by_key = pc.fill_null(pc.equal(outcomes.op, BY_KEY), False)
    wanted = pc.or_(by_key, _rows_without_key(fields, outcomes, keys))
    if not pc.any(wanted).as_py():
        return outcomes
    op = pc.if_else(by_key, pa.scalar(DELETE, pa.int16()), outcomes.op)
    if not key_decoder.fields:
        return Outcomes(outcomes.columns, op, outcomes.errors, outcomes.unset, outcomes.old)
    decoded = key_decoder.decode(keys.filter(wanted))
    mask = wanted.to_numpy(zero_copy_only=False)
    at = pa.array(np.where(mask, len(mask) + np.cumsum(mask) - 1, np.arange(len(mask))))
    found = dict(zip((f.name for f in key_decoder.fields), decoded.columns, strict=True))
    columns = [
        pc.coalesce(column, pa.concat_arrays([column, found[field.name]]).take(at))
        if field.name in found
        else column
        for field, column in zip(fields, outcomes.columns, strict=True)
    ]
    errors = outcomes.errors
    if decoded.errors is not None:
        before = pa.nulls(len(mask), pa.string()) if errors is None else errors
        errors = pa.concat_arrays([before, decoded.errors]).take(at)
    return Outcomes(columns, op, errors, outcomes.unset, outcomes.old)


def _rows_without_key(
    fields: tuple[FieldSpec, ...], outcomes: Outcomes, keys: pa.BinaryArray
) -> pa.BooleanArray:
    """Upserts whose payload leaves the key, or a part of it, to the record's key."""
    columns = [c for f, c in zip(fields, outcomes.columns, strict=True) if f.key and not f.source]
    if not any(column.null_count for column in columns):
        return pa.array(np.zeros(len(keys), bool))
    missing = columns[0].is_null()
    for column in columns[1:]:
        missing = pc.or_(missing, column.is_null())
    upsert = pc.fill_null(pc.equal(outcomes.op, UPSERT), False)
    fine = outcomes.errors.is_null() if outcomes.errors is not None else True
    return pc.and_(pc.and_(missing, upsert), pc.and_(keys.is_valid(), fine))


def _check(fields: tuple[FieldSpec, ...], outcomes: Outcomes) -> pa.StringArray | None:
    """The errors, with those of rows that leave a key column empty or, of an upsert, one that is NOT NULL."""
    errors = outcomes.errors
    for ordinal, (field, column) in enumerate(zip(fields, outcomes.columns, strict=True)):
        if not (field.key or field.not_null) or not column.null_count:
            continue
        ops = (UPSERT, MOVED, DELETE) if field.key else (UPSERT, MOVED)
        missing = pc.and_(column.is_null(), pc.is_in(outcomes.op, pa.array(ops, pa.int16())))
        if outcomes.unset is not None and not field.key:
            missing = pc.and_(missing, _is_told(outcomes.unset, ordinal))
        if not pc.any(missing).as_py():
            continue
        if errors is None:
            errors = pa.nulls(len(column), pa.string())
        why = "part of the primary key" if field.key else "declared NOT NULL"
        reason = f"column {field.name} is NULL but {why}"
        errors = pc.if_else(pc.and_(missing, errors.is_null()), reason, errors)
    return errors if errors is not None and errors.null_count < len(errors) else None


def _is_told(unset: pa.ListArray, ordinal: int) -> pa.BooleanArray:
    told = np.ones(len(unset), bool)
    here = pc.equal(unset.flatten(), ordinal)
    told[pc.list_parent_indices(unset).filter(here).to_numpy()] = False
    return pa.array(told)


# -- the key of a record -----------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyDecoder:
    """The key columns out of the keys of records: JSON objects, or the value itself where the key is one column."""

    fields: tuple[FieldSpec, ...]
    reading: connect.Reading

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Every key as values of its columns, or its reason."""
        if not payloads.null_count:
            return blocks.decode(payloads, self.fields, self._fast(payloads), self.record)
        errors = pc.if_else(payloads.is_null(), "the record has no key, which tells the row", None)
        there = self.decode(payloads.drop_null())
        place = np.cumsum(payloads.is_valid().to_numpy(zero_copy_only=False)) - 1
        at = pc.if_else(payloads.is_valid(), pa.array(place, pa.int64()), None)
        if there.errors is not None:
            errors = pc.coalesce(errors, there.errors.take(at))
        return Decoded([c.take(at) for c in there.columns], errors)

    def _fast(self, keys: pa.BinaryArray) -> blocks.Fast | None:
        return fast_rows(self.fields, keys, self.reading)

    def record(self, key: bytes) -> Sequence[Any]:
        """The values of one key, or ValueError with the reason."""
        try:
            return self._values(key)
        except ValueError as error:
            raise ValueError(f"the record's key: {error}") from None

    def _values(self, key: bytes) -> Sequence[Any]:
        single = len(self.fields) == 1
        schema = None
        try:
            value, schema = connect.unwrap(document(key))
        except ValueError:
            if not single:
                raise
            value = blocks.text_of(key)
        if isinstance(value, dict):
            return picked(value, self.fields, schema, self.reading)
        if not single:
            raise ValueError(f"it is not an object with {_listed(self.fields)}")
        field = self.fields[0]
        if value is None:
            return [None]
        if field.type == t.VARCHAR and schema is None and not isinstance(value, str):
            value = blocks.text_of(key)
        return [connect.converter(field.type, schema, self.reading)(value)]


def picked(
    value: dict[str, Any],
    fields: tuple[FieldSpec, ...],
    schema: connect.Schema | None,
    reading: connect.Reading,
) -> list[Any]:
    """The fields of a row that carries its schema or not, or ValueError with the reason."""
    converters = [
        (f.name, connect.converter(f.type, connect.child(schema, f.name), reading)) for f in fields
    ]
    found = values.pick(value, converters)
    return [found[f.name] for f in fields]


def fast_rows(
    fields: tuple[FieldSpec, ...], payloads: pa.BinaryArray, reading: connect.Reading
) -> blocks.Fast | None:
    """The fast way for rows like the first of these, with their schema or without; None if there is none."""
    first = next((p for p in payloads[:3].to_pylist() if p is not None), b"")
    prefix, schema = connect.opening(first) or (b"", None)
    inner = connect.strip(payloads[:1], prefix)
    columns = inner is not None and Columns.like(
        fields,
        sampled(inner),
        lambda f, v: connect.reader(f.type, connect.child(schema, f.name), v, reading),
    )
    if not columns:
        return None

    alike = any(f.name.lower() in ("schema", "payload") for f in fields)

    def fast(some: pa.BinaryArray) -> list[pa.Array] | None:
        rows = connect.strip(some, prefix)
        found = None if rows is None else columns.decode(rows)
        if found and (alike or all(c.null_count for c in found)) and connect.may_be_wrapped(rows):
            return None
        return found

    return fast


def _listed(fields: tuple[FieldSpec, ...]) -> str:
    return ", ".join(f.name for f in fields)


# -- plain rows --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlainChanges:
    """FORMAT PLAIN into a table with a key: every record puts its row there."""

    decoder: Decoder
    partial = False

    @property
    def reads_key(self) -> bool:
        """Whether the key of a raw record says something: the header of its file."""
        return below_headers(self.decoder) is not None

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        """The columns of the rows."""
        return self.decoder.fields

    def changes(self, keys: pa.BinaryArray, payloads: pa.BinaryArray) -> Changes:
        """One upsert a record."""
        headed = below_headers(self.decoder)
        decoded = headed.decode_below(keys, payloads) if headed else self.decoder.decode(payloads)
        op = pa.repeat(pa.scalar(UPSERT, pa.int16()), len(payloads))
        no_keys = pa.nulls(len(payloads), pa.binary())
        return changes(self.fields, Outcomes(decoded.columns, op, decoded.errors), no_keys)
