"""Columns of a table as an index sees them: their types, and what data files say or leave out about them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal

import pyarrow as pa
from pyspark.sql.types import StructType

from icestream.lake.java_types import JavaFile, JavaObject, JavaTable
from icestream.lake.jvm import iterate
from icestream.lake.staging import missing_column
from icestream.lake.table import LakeTable

KEY_TYPES = frozenset(
    ("boolean", "int", "long", "float", "double", "decimal", "date", "timestamp", "timestamptz", "string", "binary")
)  # fmt: skip
CARRIED_TYPES = KEY_TYPES | {"fixed"}
"""Types of values, also within nested ones, that pyarrow and Spark read from Parquet as the same."""


def row_type(table: LakeTable, java: JavaTable, columns: Sequence[str]) -> StructType:
    """Some columns with the types that Spark gives them when it reads the table."""
    text = table.jvm.iceberg.spark.SparkSchemaUtil.convert(java.schema()).json()
    fields = {f.name: f for f in StructType.fromJson(json.loads(text)).fields}
    for name in columns:
        if name not in fields:
            raise missing_column(table, name)
    return StructType([fields[name] for name in columns])


def described(fields: Sequence[JavaObject]) -> list[str]:
    """Columns as they are kept beside an index, to notice that they have become others."""
    return [f"{f.fieldId()} {f.type()}" for f in fields]


def carries(type: JavaObject) -> bool:
    """Whether an index can hold values of the type."""
    if type.isPrimitiveType():
        return str(type).split("(")[0].split("[")[0] in CARRIED_TYPES
    if not type.isNestedType():
        return False
    return all(carries(f.type()) for f in iterate(type.asNestedType().fields()))


def stored(type: pa.DataType) -> pa.DataType:
    """The type in a run: texts and bytes of all its rows may be more than 2 GB."""
    if pa.types.is_string(type):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(type) else type


def name_mapping(java: JavaTable) -> dict[int, tuple[str, ...]]:
    """Names that columns have in files without field ids."""
    text = java.properties().get("schema.name-mapping.default")
    fields = json.loads(str(text)) if text is not None else []
    return {f["field-id"]: tuple(f["names"]) for f in fields if "field-id" in f}


def plain(value: object) -> object:
    """A value of Iceberg's as Python's: dates and times are numbers already, texts and bytes may be wrapped."""
    if value is None or isinstance(value, bool | int | float | str | bytes | Decimal):
        return value
    return bytes(value.array()) if hasattr(value, "array") else str(value)


def access_properties(java: JavaTable, locations: Iterable[str]) -> dict[str, str]:
    """How files of the table are reached: what its catalog says about the object store, if they are in one."""
    if all(location.startswith(("file:", "/")) for location in locations):
        return {}
    found = (
        (str(e.getKey()), str(e.getValue())) for e in iterate(java.io().properties().entrySet())
    )
    return {k: v for k, v in found if k.startswith(("s3.", "client."))}


class Partitions:
    """Values of key columns that data files need not hold, because the table is partitioned by them as they are."""

    def __init__(self, java: JavaTable, key: set[int]) -> None:
        self.java, self.key = java, key
        self._identities: dict[int, list[tuple[int, int, JavaObject]]] = {}

    def constants(self, file: JavaFile) -> tuple[tuple[int, object], ...]:
        """(field id, value) of such columns, in the form in which they are compared."""
        number = file.specId()
        if number not in self._identities:
            self._identities[number] = self._find(self.java.specs().get(number))
        return tuple(
            (id, plain(file.partition().get(place, kind)))
            for place, id, kind in self._identities[number]
        )

    def _find(self, spec: JavaObject) -> list[tuple[int, int, JavaObject]]:
        found = []
        for place, part in enumerate(iterate(spec.fields())):
            if part.sourceId() in self.key and part.transform().isIdentity():
                found.append((place, part.sourceId(), spec.javaClasses()[place]))
        return found
