"""Debezium's envelopes by the block: those that begin with the same schema part are cut and read by Arrow at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors.formats import FieldSpec, values
from icestream.connectors.formats import connect_json as connect
from icestream.connectors.formats.debezium import DebeziumDecoder, Unavailable
from icestream.connectors.formats.json_fast import Columns, read_block
from icestream.lake.fold import DELETE, UPSERT

SAMPLES = 50  # records that are looked at for a value of every column


class Fast:
    """The fast way through one batch: a shape for each schema part that occurs in it."""

    def __init__(self, decoder: DebeziumDecoder) -> None:
        self.decoder = decoder
        self.shapes: dict[bytes, Shape | None] = {}

    def decode(self, payloads: pa.BinaryArray) -> list[pa.Array] | None:
        """The columns and the marks, or None where only the careful way is right."""
        if not len(payloads):
            return None
        first = payloads[0].as_py()
        prefix = next((p for p in self.shapes if p and first.startswith(p)), None)
        if prefix is None:
            prefix, schema = connect.opening(first) or (b"", None)
            if prefix not in self.shapes:
                self.shapes[prefix] = shape(self.decoder, prefix, schema, payloads)
        found = self.shapes[prefix]
        return found.decode(payloads) if found is not None else None


@dataclass(frozen=True)
class Shape:
    """How the events behind one schema part are read."""

    decoder: DebeziumDecoder
    prefix: bytes
    row: Columns
    source: Columns | None
    same_keys: bool = True
    """Whether the schema says the same of the key before and after."""

    def decode(self, payloads: pa.BinaryArray) -> list[pa.Array] | None:
        """The columns and the marks, or None where only the careful way is right."""
        events = connect.strip(payloads, self.prefix)
        if events is None:
            return None
        return self.row.attempt(lambda row: replace(self, row=row)._decode(events))

    def _decode(self, events: pa.BinaryArray) -> list[pa.Array] | None:
        """The same; may raise one of REFUSED, too."""
        found = read_block(events, self._schema(), self._max_scale())
        if found is None:
            return None
        texts, data, table = found
        op, after = (table.column(n).combine_chunks() for n in ("op", "after"))
        if not pc.all(pc.is_in(op, pa.array(["r", "c", "u", "d"]))).as_py():
            return None
        deletes = pc.equal(op, "d")
        if not after.is_null().equals(deletes):
            return None
        read = after.flatten()
        some = after.null_count > 0
        upserts = pc.invert(deletes)
        if self.row.respelled(texts, data, [c.filter(upserts) for c in read] if some else read):
            return None
        told = self._told(read)
        if told is None:
            return None
        read, unset = told
        if self._key_ordinals():
            before = table.column("before").combine_chunks()
            if not self.same_keys and before.null_count < len(before):
                return None
            if before.null_count < len(before) or some:
                old = dict(zip(self._key_ordinals(), before.flatten(), strict=True))
                if any(_differ(op, before, c, read[i]) for i, c in old.items()):
                    return None
                for i, column in old.items() if some else ():
                    read[i] = pc.if_else(deletes, column, read[i])
        columns = iter(self.row.finish(read))
        included = iter(self._included(table))
        return [
            *(next(columns if f.source is None else included) for f in self.decoder.fields),
            pc.if_else(deletes, DELETE, UPSERT).cast(pa.int16()),
            unset,
            *(pa.nulls(len(op), t.arrow_type(f.type)) for f in self.decoder.keys),
        ]

    def _max_scale(self) -> int | None:
        scales = (c.max_scale() for c in (self.row, self.source) if c is not None)
        return min((s for s in scales if s is not None), default=None)

    def _schema(self) -> pa.Schema:
        row = self.row.schema()
        parts = {"op": pa.string(), "after": pa.struct(row)}
        if self._key_ordinals():
            parts["before"] = pa.struct([row[i] for i in self._key_ordinals()])
        if self.source is not None:
            parts["source"] = pa.struct(self.source.schema())
        return pa.schema(parts)

    def _key_ordinals(self) -> list[int]:
        """Which columns of the row are its key."""
        return [i for i, f in enumerate(self.row.fields) if f.key]

    def _included(self, table: pa.Table) -> list[pa.Array]:
        if self.source is None:
            return []
        return self.source.finish(table.column("source").combine_chunks().flatten())

    def _told(self, read: list[pa.Array]) -> tuple[list[pa.Array], pa.ListArray] | None:
        """The columns without the values that are not told, and which those are; None if that is hard to say."""
        unavailable = Unavailable(self.decoder.placeholder)
        masks: dict[int, pa.BooleanArray] = {}
        read = list(read)
        for i, (field, column) in enumerate(zip(self.row.fields, read, strict=True)):
            if pa.types.is_string(column.type):
                mask = pc.is_in(column, pa.array(unavailable.texts(field.type)))
                if pc.any(mask).as_py():
                    masks[self.decoder.fields.index(field)] = mask
                    read[i] = pc.if_else(mask, None, column)
            elif _may_hold(unavailable, column):
                return None
        return read, _lists(masks, len(read[0]))


def shape(
    decoder: DebeziumDecoder, prefix: bytes, schema: connect.Schema | None, payloads: pa.BinaryArray
) -> Shape | None:
    """The shape of events like the first of these; None where Arrow cannot read them."""
    row, source = _sampled(
        prefix, payloads, {f.name.lower() for f in decoder.fields if not f.source}
    )
    reading = decoder.reading
    after, origin = connect.child(schema, "after"), connect.child(schema, "source")
    columns = Columns.like(
        tuple(f for f in decoder.fields if f.source is None),
        row,
        lambda f, v: connect.reader(f.type, connect.child(after, f.name), v, reading),
    )
    wanted = tuple(FieldSpec(f.source, f.type) for f in decoder.fields if f.source is not None)
    aside = Columns.like(
        wanted,
        source,
        lambda f, v: connect.reader(f.type, connect.child(origin, f.name), v, reading),
    )
    if columns is None or (wanted and aside is None):
        return None
    if aside is not None and aside.keys != [f.name for f in wanted]:
        return None
    before = connect.child(schema, "before")
    same_keys = all(
        connect.child(before, f.name) == connect.child(after, f.name) for f in decoder.keys
    )
    return Shape(decoder, prefix, columns, aside, same_keys)


def _sampled(
    prefix: bytes, payloads: pa.BinaryArray, wanted: set[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A value of each field of the rows and of the source, as far as the first events have one."""
    row: dict[str, Any] = {}
    source: dict[str, Any] = {}
    for payload in payloads[:SAMPLES].to_pylist():
        if payload is None or not payload.startswith(prefix):
            continue
        text = payload[len(prefix) : -1] if prefix else payload
        try:
            event = values.parse(text.decode())
        except (ValueError, RecursionError):
            continue
        if not isinstance(event, dict):
            continue
        for part, known in (("before", row), ("after", row), ("source", source)):
            found = event.get(part)
            for name, item in found.items() if isinstance(found, dict) else ():
                if item is not None or name not in known:
                    known[name] = item
        if wanted <= {name.lower() for name, item in row.items() if item is not None}:
            break
    return row, source


def _differ(op: pa.Array, before: pa.Array, old: pa.Array, new: pa.Array) -> bool:
    """Whether a key column of the row before is another one, or not there where it is needed."""
    update = pc.and_(pc.equal(op, "u"), before.is_valid())
    other = pc.and_(update, pc.fill_null(pc.not_equal(old, new), True))
    missing = pc.and_(pc.equal(op, "d"), old.is_null())
    return bool(pc.any(pc.or_kleene(other, missing)).as_py())


def _may_hold(unavailable: Unavailable, column: pa.Array) -> bool:
    """Whether a value may be the placeholder, or a part of it, at any depth."""
    if pa.types.is_struct(column.type):
        return any(_may_hold(unavailable, inner) for inner in column.flatten())
    if pa.types.is_map(column.type):
        return any(_may_hold(unavailable, inner) for inner in (column.keys, column.items))
    if pa.types.is_list(column.type):
        size = pc.list_value_length(column)
        if pc.any(pc.equal(size, len(unavailable.raw))).as_py():
            return True
        return _may_hold(unavailable, column.flatten())
    if not pa.types.is_string(column.type):
        return False
    forms = {*unavailable.items, *unavailable.texts(t.BYTEA)}
    return bool(pc.any(pc.is_in(column, pa.array(sorted(forms)))).as_py())


def _lists(masks: dict[int, pa.BooleanArray], length: int) -> pa.ListArray:
    """For each row the numbers of the masks that hold there; NULL for none."""
    if not masks:
        return pa.nulls(length, pa.list_(pa.int32()))
    held = np.stack([m.to_numpy(zero_copy_only=False) for m in masks.values()], axis=1)
    counts = held.sum(axis=1)
    numbers = np.array(list(masks), np.int32)[np.nonzero(held)[1]]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, numbers, mask=pa.array(counts == 0))
