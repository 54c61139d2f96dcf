"""Records → what a table needs to hold them, in two steps: a small description of each batch, made where the records are,
and the merge of all descriptions on the driver.

A description counts, for every field, how often each kind of value was seen. The kind that most records have decides the
type, so that one bad record does not; whole numbers and fractions are one kind. NULLs, empty arrays and empty objects say
nothing. Values that carry a schema count as their schema says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icestream import types as t
from icestream.connectors.formats import blocks
from icestream.connectors.formats.json import read_block
from icestream.kafka_connect import schema as connect
from icestream.kafka_connect.records import Reading, envelope
from icestream.kafka_connect.schema import ConnectSchema

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
SMALL = 64
"""Records below which a block that Arrow refuses is looked at one by one."""


@dataclass
class Description:
    """What was seen in one place of the records."""

    kinds: dict[str, int] = field(default_factory=dict)
    fields: dict[str, Description] = field(default_factory=dict)
    element: Description | None = None
    """Of arrays' items and maps' values."""
    optional: bool = False
    """Whether a schema said so, or a record came without one."""

    def add(self, kind: str, count: int = 1) -> None:
        """Count values of a kind."""
        if count:
            self.kinds[kind] = self.kinds.get(kind, 0) + count

    def inner(self) -> Description:
        """The description of the elements."""
        self.element = self.element or Description()
        return self.element

    def of(self, name: str, fold: bool = False) -> Description:
        """The description of a field; `fold`: under the first spelling that was seen."""
        if fold and name not in self.fields:
            name = next((n for n in self.fields if n.lower() == name.lower()), name)
        return self.fields.setdefault(name, Description())

    @property
    def count(self) -> int:
        """How many values were seen."""
        return sum(self.kinds.values())

    def merge(self, other: Description, fold: bool = False) -> None:
        """Take in what was seen elsewhere."""
        for kind, count in other.kinds.items():
            self.add(kind, count)
        for name, inner in other.fields.items():
            self.of(name, fold).merge(inner, fold)
        if other.element is not None:
            self.inner().merge(other.element, fold)
        self.optional |= other.optional

    def to_json(self) -> dict[str, Any]:
        """A JSON value, to travel from an executor."""
        return {
            "k": self.kinds,
            "f": {n: d.to_json() for n, d in self.fields.items()},
            "e": self.element.to_json() if self.element else None,
            "o": self.optional,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Description:
        """The description of that JSON value."""
        fields = {n: cls.from_json(d) for n, d in raw["f"].items()}
        element = cls.from_json(raw["e"]) if raw["e"] else None
        return cls(dict(raw["k"]), fields, element, raw["o"])


@dataclass
class Seen:
    """A batch: what its records for the table look like, and how many cannot be read at all."""

    records: Description = field(default_factory=Description)
    bad: int = 0


def describe(payloads: pa.BinaryArray, reading: Reading) -> Seen:
    """What the records of a batch look like; NULL payloads are skipped. Called on executors."""
    seen = Seen()
    _block(payloads.filter(payloads.is_valid()), reading, seen)
    return seen


def merged(descriptions: Iterable[Mapping[str, Any]], *, fold: bool = False) -> Description:
    """All descriptions together; `fold`: names that differ only by case are one."""
    result = Description()
    for raw in descriptions:
        result.merge(Description.from_json(raw), fold)
    return result


# -- looking -----------------------------------------------------------------------------------------


def _block(payloads: pa.BinaryArray, reading: Reading, seen: Seen) -> None:
    if not reading.route_field and reading.schemas is not False:
        payloads = _with_schema(payloads, seen)
    if not len(payloads) or (not reading.schemas and _at_once(payloads, reading, seen)):
        return
    if len(payloads) <= SMALL or reading.schemas:
        for payload in payloads.to_pylist():
            _record(payload, reading, seen)
        return
    half = len(payloads) // 2
    _block(payloads.slice(0, half), reading, seen)
    _block(payloads.slice(half), reading, seen)


def _with_schema(payloads: pa.BinaryArray, seen: Seen) -> pa.BinaryArray:
    """Count the values that begin with the same schema as the first, and give those that are left."""
    while len(payloads):
        found = envelope(payloads[0].as_py())
        if found is None:
            return payloads
        prefix, schema = found
        alike = pc.and_(pc.starts_with(payloads, prefix), pc.ends_with(payloads, b"}"))
        count = pc.sum(alike).as_py()
        if not count:
            return payloads
        _schema(schema, seen.records, count)
        payloads = payloads.filter(pc.invert(alike))
    return payloads


def _at_once(payloads: pa.BinaryArray, reading: Reading, seen: Seen) -> bool:
    """Let Arrow find the types; False where its types are not ours to trust."""
    try:
        found = read_block(payloads, None)
        if found is None:
            return False
        _, _, table = found
        table.validate(full=True)  # Arrow has been seen to give a struct's new field too few rows
    except Exception:  # the records are looked at one by one then
        return False
    if reading.schemas is None and {"schema", "payload"} <= set(table.column_names):
        return False
    if reading.route_field:
        table = table.filter(pa.array([reading.wants(r) for r in _routes(table, reading)]))
    for name in table.column_names:
        _column(table.column(name).combine_chunks(), seen.records.of(name))
    seen.records.add("struct", table.num_rows)
    return True


def _routes(table: pa.Table, reading: Reading) -> list[Any]:
    """The records with no more than what the route looks at."""
    first = reading.route_field[0]
    if first not in table.column_names:
        return [{}] * table.num_rows
    return list(table.select([first]).to_pylist())


def _column(column: pa.Array, into: Description) -> None:
    type, present = column.type, len(column) - column.null_count
    into.optional = True
    if pa.types.is_null(type) or not present:
        return
    if pa.types.is_boolean(type):
        into.add("boolean", present)
    elif pa.types.is_integer(type):
        edge = pc.min_max(column).as_py()
        small = edge["min"] >= -INT_MAX and edge["max"] <= INT_MAX
        into.add("whole" if small else "long", present)
    elif pa.types.is_floating(type):
        into.add("fraction", present)
    elif pa.types.is_struct(type):
        into.add("struct", present)
        for number in range(type.num_fields):
            _column(pc.struct_field(column, number), into.of(type.field(number).name))
    elif pa.types.is_list(type):
        into.add("list", present)
        _column(column.flatten(), into.inner())
    else:
        into.add("string", present)  # a text that Arrow took for a time is still a text


def _record(payload: bytes, reading: Reading, seen: Seen) -> None:
    try:
        value, schema = reading.payload(blocks.text_of(payload))
        if value is not None and not isinstance(value, dict):
            raise ValueError("not an object")
        if not reading.wants(value, schema):
            return
    except Exception:  # a dead letter, whatever is wrong with it
        seen.bad += 1
        return
    if schema is None:
        _value(value, seen.records)
    else:
        _schema(schema, seen.records)


def _value(value: Any, into: Description) -> None:
    into.optional = True
    match value:
        case bool():
            into.add("boolean")
        case int():
            small = -INT_MAX <= value <= INT_MAX
            fits = -LONG_MAX <= value <= LONG_MAX
            into.add("whole" if small else "long" if fits else "fraction")
        case Decimal():
            into.add("fraction")
        case str():
            into.add("string")
        case list():
            into.add("list")
            for item in value:
                _value(item, into.inner())
        case dict():
            into.add("struct")
            for name, item in value.items():
                _value(item, into.of(name))


_LOGICAL = {
    ("int32", connect.DATE): "date",
    ("int32", connect.TIME): "time",
    ("int64", connect.TIMESTAMP): "timestamp",
}
_SCALARS = {
    "int8": "integer", "int16": "integer", "int32": "integer", "int64": "long", "float": "float",
    "double": "double", "boolean": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip


def _schema(schema: ConnectSchema, into: Description, count: int = 1) -> None:
    into.optional |= schema.optional
    if schema.type == "struct":
        into.add("struct", count)
        for name, inner in schema.fields.items():
            _schema(inner, into.of(name), count)
    elif schema.type in ("array", "map") and schema.element is not None:
        into.add("list" if schema.type == "array" else "map", count)
        _schema(schema.element, into.inner(), count)
    elif schema.type == "bytes" and schema.logical == connect.DECIMAL:
        into.add(f"decimal {schema.precision} {schema.scale}", count)
    else:
        into.add(_LOGICAL.get((schema.type, schema.logical or ""), _SCALARS[schema.type]), count)


# -- deciding ----------------------------------------------------------------------------------------

_GROUPS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("number", ("integer", "whole", "long", "fraction", "float", "double")),
    ("struct", ("struct",)),
    ("list", ("list",)),
    ("map", ("map",)),
    ("boolean", ("boolean",)),
    ("timestamp", ("timestamp",)),
    ("date", ("date",)),
    ("time", ("time",)),
    ("bytes", ("bytes",)),
    ("string", ("string",)),
)
_TYPES = {
    "boolean": t.BOOLEAN, "timestamp": t.TIMESTAMPTZ, "date": t.DATE, "time": t.TIME,
    "bytes": t.BYTEA, "string": t.VARCHAR,
}  # fmt: skip
MAX_PRECISION = 38
MAX_NESTING = 30
"""Levels of structs, lists and maps in a new column. What is nested more deeply becomes none."""
MAX_COLUMNS = 2000
"""Columns of a table, and fields of a struct, that records can ask for."""
MAX_NAME = 255


def _group(seen: Description) -> str | None:
    """The kind of value that most records have; ties go to the first in the list."""
    counts = {name: sum(seen.kinds.get(k, 0) for k in kinds) for name, kinds in _GROUPS}
    counts["number"] += sum(n for k, n in seen.kinds.items() if k.startswith("decimal"))
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else None


def type_of(seen: Description, depth: int = 0) -> t.Type | None:
    """The type that a new column gets; None: nothing is known yet, or it is nested too deeply."""
    if depth > MAX_NESTING:
        return None
    match _group(seen):
        case None:
            return None
        case "number":
            return _number(seen)
        case "list":
            element = type_of(seen.element, depth + 1) if seen.element else None
            return t.array(element) if element else None
        case "map":
            element = type_of(seen.element, depth + 1) if seen.element else None
            return t.map_of(t.VARCHAR, element) if element else None
        case "struct":
            fields = columns_of(seen, depth + 1)
            return t.struct(*((f.name, f.type) for f in fields)) if fields else None
        case str(kind):
            return _TYPES[kind]


@dataclass(frozen=True)
class NewColumn:
    """A column or nested field that records ask for."""

    name: str
    type: t.Type
    required: bool = False


def columns_of(seen: Description, depth: int = 0, known: int = 0) -> list[NewColumn]:
    """The columns of a new table, or the fields of a new struct, beside the `known` ones (a count).

    Left out are names that no column can have: a record of any shape must not stop the stream.
    """
    left = MAX_COLUMNS - known
    columns: list[NewColumn] = []
    for name, inner in seen.fields.items():
        if not is_column_name(name) or len(columns) >= left:
            continue
        type = type_of(inner, depth)
        if type is not None:
            required = not inner.optional and inner.count == seen.count
            columns.append(NewColumn(name, type, required))
    return columns


def is_column_name(name: str) -> bool:
    """Whether a field can become a column."""
    return 0 < len(name) <= MAX_NAME and "." not in name and name.isprintable()


def _number(seen: Description) -> t.Type:
    kinds = seen.kinds
    decimals = [tuple(map(int, k.split()[1:])) for k in kinds if k.startswith("decimal")]
    if "double" in kinds or "fraction" in kinds or ("float" in kinds and len(kinds) > 1):
        return t.DOUBLE
    if "float" in kinds:
        return t.REAL
    if decimals:
        scale = min(max(0, *(s for _, s in decimals)), MAX_PRECISION)
        whole = max((p or MAX_PRECISION) - s for p, s in decimals)
        return t.numeric(min(MAX_PRECISION, max(whole + scale, scale, 1)), scale)
    return t.BIGINT if "long" in kinds or "whole" in kinds else t.INTEGER


# -- changing a table --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alteration:
    """One change of a table's schema: a new optional column (or nested field), or a wider type for one."""

    path: tuple[str, ...]
    type: t.Type
    add: bool = False


def alterations(
    columns: Iterable[tuple[str, t.Type]], seen: Description, *, fold: bool = False
) -> list[Alteration]:
    """What a table of those columns has to become for the records."""
    return _changes(t.struct(*columns), seen, (), fold)


def _changes(
    have: t.Type, seen: Description, path: tuple[str, ...], fold: bool
) -> list[Alteration]:
    match have:
        case t.StructType(fields=fields):
            if "struct" not in seen.kinds:
                return []
            by_name = {f.name.lower() if fold else f.name: f for f in fields}
            changes: list[Alteration] = []
            new: dict[str, Description] = {}
            for name, inner in seen.fields.items():
                known = by_name.get(name.lower() if fold else name)
                if known is not None:
                    changes += _changes(known.type, inner, (*path, known.name), fold)
                else:
                    new[name] = inner
            added = columns_of(replace(seen, fields=new), len(path), len(fields))
            return [*changes, *(Alteration((*path, c.name), c.type, add=True) for c in added)]
        case t.ArrayType(element=element) if seen.element is not None:
            return _changes(element, seen.element, (*path, "element"), fold)
        case t.MapType(value=value) if seen.element is not None:
            return _changes(value, seen.element, (*path, "value"), fold)
    wider = _wider(have, seen)
    return [Alteration(path, wider)] if wider else []


def _wider(have: t.Type, seen: Description) -> t.Type | None:
    """The type to which a scalar column has to be widened, if Iceberg can."""
    if have == t.INTEGER and "long" in seen.kinds:
        return t.BIGINT
    if have == t.REAL and "double" in seen.kinds:
        return t.DOUBLE
    if isinstance(have, t.NumericType):
        told = [tuple(map(int, k.split()[1:])) for k in seen.kinds if k.startswith("decimal")]
        precisions = [p for p, s in told if s == have.scale and p > have.precision]
        if precisions:
            return t.numeric(min(max(precisions), MAX_PRECISION), have.scale)
    return None
