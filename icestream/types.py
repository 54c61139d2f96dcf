"""The SQL types of the dialect and what they are in Spark, Iceberg and Arrow.

A `Type` is a frozen value, named as PostgreSQL names it. Every layer speaks these; the mappings
to other systems live here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Type:
    """A SQL type. Scalars differ by name alone; the parameterised ones are subclasses."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class NumericType(Type):
    """numeric(p, s). Without a declared precision: decimal(38, 10)."""

    precision: int = 38
    scale: int = 10

    def __str__(self) -> str:
        return f"numeric({self.precision},{self.scale})"


@dataclass(frozen=True)
class ArrayType(Type):
    """element[]"""

    element: Type

    def __str__(self) -> str:
        return f"{self.element}[]"


@dataclass(frozen=True)
class Field:
    """One field of a struct: a name and a type; fields are nullable."""

    name: str
    type: Type


@dataclass(frozen=True)
class StructType(Type):
    """struct<a integer, b varchar>"""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return "struct<" + ", ".join(f"{quote(f.name)} {f.type}" for f in self.fields) + ">"


@dataclass(frozen=True)
class MapType(Type):
    """map(key, value)"""

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map({self.key},{self.value})"


BOOLEAN = Type("boolean")
SMALLINT = Type("smallint")
INTEGER = Type("integer")
BIGINT = Type("bigint")
REAL = Type("real")
DOUBLE = Type("double precision")
NUMERIC = NumericType("numeric")
VARCHAR = Type("varchar")
BYTEA = Type("bytea")
DATE = Type("date")
TIME = Type("time")
TIMESTAMP = Type("timestamp")
TIMESTAMPTZ = Type("timestamptz")
INTERVAL = Type("interval")
JSONB = Type("jsonb")
NULL = Type("unknown")  # the type of a bare NULL, and of an untyped string literal

INTEGERS = (SMALLINT, INTEGER, BIGINT)
FLOATS = (REAL, DOUBLE)


def numeric(precision: int, scale: int = 0) -> NumericType:
    """numeric(p, s)"""
    return NumericType("numeric", precision, scale)


def array(element: Type) -> ArrayType:
    """element[]"""
    return ArrayType("array", element)


def struct(*fields: tuple[str, Type]) -> StructType:
    """struct<…> from (name, type) pairs"""
    return StructType("struct", tuple(Field(n, t) for n, t in fields))


def map_of(key: Type, value: Type) -> MapType:
    """map(key, value)"""
    return MapType("map", key, value)


_ALIASES: dict[str, Type] = {
    "boolean": BOOLEAN, "bool": BOOLEAN,
    "smallint": SMALLINT, "int2": SMALLINT,
    "integer": INTEGER, "int": INTEGER, "int4": INTEGER,
    "bigint": BIGINT, "int8": BIGINT,
    "real": REAL, "float4": REAL,
    "double precision": DOUBLE, "double": DOUBLE, "float8": DOUBLE, "float": DOUBLE,
    "numeric": NUMERIC, "decimal": NUMERIC,
    "varchar": VARCHAR, "text": VARCHAR, "string": VARCHAR, "character varying": VARCHAR,
    "bytea": BYTEA,
    "date": DATE,
    "time": TIME, "time without time zone": TIME,
    "timestamp": TIMESTAMP, "timestamp without time zone": TIMESTAMP,
    "timestamptz": TIMESTAMPTZ, "timestamp with time zone": TIMESTAMPTZ,
    "interval": INTERVAL,
    "jsonb": JSONB,
}  # fmt: skip


def scalar(name: str) -> Type | None:
    """The scalar type of that (case-insensitive) SQL name, or None."""
    return _ALIASES.get(" ".join(name.lower().split()))


def scalar_names() -> tuple[str, ...]:
    """All names `scalar` knows, for suggestions."""
    return tuple(_ALIASES)


def quote(name: str) -> str:
    """A name as SQL prints it: quoted only when it must be."""
    plain = name and not name[0].isdigit() and all(c.isalnum() or c == "_" for c in name)
    return name if plain and name == name.lower() else '"' + name.replace('"', '""') + '"'


_SPARK: dict[Type, str] = {
    BOOLEAN: "BOOLEAN", SMALLINT: "SMALLINT", INTEGER: "INT", BIGINT: "BIGINT",
    REAL: "FLOAT", DOUBLE: "DOUBLE", VARCHAR: "STRING", BYTEA: "BINARY", DATE: "DATE",
    TIME: "BIGINT",  # microseconds since midnight: neither Spark 4.0 nor its Iceberg writer has TIME
    TIMESTAMP: "TIMESTAMP_NTZ", TIMESTAMPTZ: "TIMESTAMP",
    INTERVAL: "STRUCT<months: INT, days: INT, microseconds: BIGINT>",
    JSONB: "STRING", NULL: "VOID",
}  # fmt: skip


def spark_type(type: Type) -> str:
    """The type in Spark's SQL, as the executor and DDL on Spark's side need it."""
    match type:
        case NumericType(precision=p, scale=s):
            return f"DECIMAL({p},{s})"
        case ArrayType(element=e):
            return f"ARRAY<{spark_type(e)}>"
        case MapType(key=k, value=v):
            return f"MAP<{spark_type(k)}, {spark_type(v)}>"
        case StructType(fields=fields):
            inner = ", ".join(f"{backtick(f.name)}: {spark_type(f.type)}" for f in fields)
            return f"STRUCT<{inner}>"
        case _:
            return _SPARK[type]


def backtick(name: str) -> str:
    """A name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def stored_spark_type(type: Type) -> str:
    """The type a column has in an Iceberg table: smallint is stored as int (Iceberg has no int2)."""
    match type:
        case ArrayType(element=e):
            return f"ARRAY<{stored_spark_type(e)}>"
        case MapType(key=k, value=v):
            return f"MAP<{stored_spark_type(k)}, {stored_spark_type(v)}>"
        case StructType(fields=fields):
            inner = ", ".join(f"{backtick(f.name)}: {stored_spark_type(f.type)}" for f in fields)
            return f"STRUCT<{inner}>"
        case _:
            return "INT" if type == SMALLINT else spark_type(type)


def arrow_type(type: Type) -> pa.DataType:
    """The type in Arrow, as decoders produce it and Spark's Arrow exchange expects it."""
    import pyarrow as pa

    match type:
        case NumericType(precision=p, scale=s):
            return pa.decimal128(p, s)
        case ArrayType(element=e):
            return pa.list_(arrow_type(e))
        case MapType(key=k, value=v):
            return pa.map_(arrow_type(k), arrow_type(v))
        case StructType(fields=fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
    table: dict[Type, pa.DataType] = {
        BOOLEAN: pa.bool_(), SMALLINT: pa.int16(), INTEGER: pa.int32(), BIGINT: pa.int64(),
        REAL: pa.float32(), DOUBLE: pa.float64(), VARCHAR: pa.string(), BYTEA: pa.binary(),
        DATE: pa.date32(), TIME: pa.int64(), TIMESTAMP: pa.timestamp("us"),
        TIMESTAMPTZ: pa.timestamp("us", tz="UTC"), JSONB: pa.string(), NULL: pa.null(),
        INTERVAL: pa.struct([("months", pa.int32()), ("days", pa.int32()),
                             ("microseconds", pa.int64())]),
    }  # fmt: skip
    return table[type]
