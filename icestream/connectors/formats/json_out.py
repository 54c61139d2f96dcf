"""Rows → JSON text, as Spark expressions: what the Kafka sink writes.

numeric                 text, so that no reader rounds it
timestamptz, timestamp  "2024-02-29T12:00:00.000000Z", the latter without Z; date "2024-02-29"
time, interval          "12:34:56.000000", "P1M2DT3.500000S"
bytea                   Base64
jsonb                   the JSON itself, not text
NULL                    null, never left out
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from icestream import types as t
from icestream.types import Type, backtick

_MICROS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


def encode(columns: Sequence[tuple[str, Type]]) -> Column:
    """One JSON object of those columns of a frame."""
    plain = [(n, type) for n, type in columns if type != t.JSONB]
    fields = [rendered(F.col(backtick(n)), type).alias(n) for n, type in plain]
    text = F.to_json(F.struct(*fields), {"ignoreNullFields": "false"}) if fields else F.lit("{}")
    for name, type in columns:
        if type == t.JSONB:  # as it is: parsing it would cost precision
            key = json.dumps(name, ensure_ascii=False)
            head = F.substr(text, F.lit(1), F.length(text) - 1)
            comma = F.lit("" if name == columns[0][0] and not fields else ",")
            value = F.coalesce(F.col(backtick(name)), F.lit("null"))
            text = F.concat(head, comma, F.lit(f"{key}:"), value, F.lit("}"))
    return text


def rendered(value: Column, type: Type) -> Column:
    """A value in the form that `to_json` then writes as it should be."""
    match type:
        case t.NumericType():
            return value.cast("string")
        case t.TIMESTAMPTZ:
            return F.date_format(value, _MICROS + "XXX")
        case t.TIMESTAMP:
            return F.date_format(value, _MICROS)
        case t.TIME:
            # Microseconds since midnight: the time of day of a moment of 1970-01-01.
            return F.date_format(F.timestamp_micros(value).cast("timestamp_ntz"), "HH:mm:ss.SSSSSS")
        case t.INTERVAL:
            seconds = (
                (value["microseconds"] / F.lit(1_000_000)).cast("decimal(20,6)").cast("string")
            )
            parts = F.lit("P"), value["months"], F.lit("M"), value["days"], F.lit("DT"), seconds
            return F.concat(*parts, F.lit("S"))
        case t.JSONB:
            return F.parse_json(value)
        case t.ArrayType(element=element):
            return (
                value
                if element in _AS_THEY_ARE
                else F.transform(value, lambda v: rendered(v, element))
            )
        case t.MapType(value=inner):
            return (
                value
                if inner in _AS_THEY_ARE
                else F.transform_values(value, lambda _, v: rendered(v, inner))
            )
        case t.StructType(fields=fields):
            inner_fields = [rendered(value.getField(f.name), f.type).alias(f.name) for f in fields]
            return F.when(value.isNotNull(), F.struct(*inner_fields))
    return value


_AS_THEY_ARE = frozenset({t.BOOLEAN, *t.INTEGERS, *t.FLOATS, t.VARCHAR, t.BYTEA, t.DATE})
