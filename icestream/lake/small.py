"""Few rows, without a Spark job: data files written and read by the driver itself.

A job costs about as much for five rows as for fifty thousand. What fits into one small file of a plain table is
written here, with the same columns, field ids and statistics as Spark's writer gives it; anything else is Spark's.
"""

from __future__ import annotations

import io
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from icestream.lake.files import LiveFile, RecentFiles, recent
from icestream.lake.java_types import JavaTable
from icestream.lake.recent import Recent
from icestream.lake.staging import LINEAGE, Staged, missing_column
from icestream.lake.table import LakeTable
from icestream.lake.vectors import Bits

FEW = 12_000
"""Changes that the driver handles itself."""
AT_MOST = 50_000
"""Rows that few changes may come to before Spark takes over."""
READABLE = 1_000_000
"""Bytes of data files that the driver reads at once."""
KEPT = 64 << 20
"""Bytes of data files, as read, that are kept in memory. One that has more is not for the driver."""
AT_ONCE = 500
"""Rows that are read from a file before their size is looked at."""
HOT = 5_000
"""Rows of a table that the driver hands to Spark itself instead of having it scanned."""

_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_LINEAGE_IDS = {"_row_id": 2147483540, "_last_updated_sequence_number": 2147483539}


def arrow_schema(
    text: str, refuse: Callable[[str], None] = lambda reason: None
) -> pa.Schema | None:
    """The table's columns as Arrow's, with their field ids; None if there is one that only Spark can write."""
    fields: list[pa.Field] = []
    for field in json.loads(text)["fields"]:
        kind = field["type"]
        found = _TYPES.get(kind) if isinstance(kind, str) else None
        if isinstance(kind, str) and (match := _DECIMAL.match(kind)):
            found = pa.decimal128(int(match[1]), int(match[2]))
        if found is None:
            refuse(f"a column of type {kind if isinstance(kind, str) else kind['type']}")
            return None
        fields.append(_field(field["name"], found, field["id"], nullable=not field["required"]))
    return pa.schema(fields)


def _field(name: str, type: pa.DataType, id: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, type, nullable, {"PARQUET:field_id": str(id)})


def can_write(table: LakeTable, java: JavaTable) -> pa.Schema | None:
    """The schema to write few rows of a table with; None if that is to be left to Spark."""
    refuse = table.jvm.fallbacks.count
    if not java.spec().isUnpartitioned() or java.sortOrder().isSorted():
        refuse("a table that is partitioned or sorted")
        return None
    return arrow_schema(str(table.jvm.iceberg.SchemaParser.toJson(java.schema())), refuse)


def write(table: LakeTable, java: JavaTable, schema: pa.Schema, rows: pa.Table) -> Staged:
    """Write rows as one data file that belongs to no snapshot yet. Columns that `rows` lacks are NULL."""
    if not len(rows):
        return Staged([], 0, 0)
    fields = list(schema)
    if java.operations().current().formatVersion() >= 3:
        fields += [_field(n, pa.int64(), _LINEAGE_IDS[n]) for n in LINEAGE]
    have = set(rows.column_names)
    if lost := sorted(have - {f.name for f in fields} - set(LINEAGE)):
        raise missing_column(table, lost[0])
    columns = [
        rows[f.name].cast(f.type) if f.name in have else pa.nulls(len(rows), f.type) for f in fields
    ]
    for field, column in zip(fields, columns, strict=True):
        if not field.nullable and column.null_count:
            raise ValueError(f"column {field.name} of {table.name} must not be NULL")
    out = io.BytesIO()
    made = pa.table(columns, pa.schema(fields))
    pq.write_table(
        made, out, compression="zstd", store_decimal_as_integer=True, use_dictionary=False
    )
    location = java.locationProvider().newDataLocation(f"{uuid.uuid4()}.parquet")
    stream = java.io().newOutputFile(location).createOrOverwrite()
    stream.write(out.getvalue())
    stream.close()
    iceberg = table.jvm.iceberg
    written = java.io().newInputFile(location)
    metrics = iceberg.parquet.ParquetUtil.fileMetrics(written, iceberg.MetricsConfig.forTable(java))
    builder = iceberg.DataFiles.builder(java.spec()).withInputFile(written)
    file = builder.withFormat("parquet").withMetrics(metrics).build()
    return Staged([file], len(rows), len(out.getvalue()))


def collected(table: LakeTable, rows: DataFrame, *, bounded: bool = False) -> pa.Table | None:
    """Rows of a table that are said to be few; None if they are more, or larger, than the driver takes. `bounded`: their
    number is known to be small."""
    try:
        found = (rows if bounded else rows.limit(AT_MOST + 1)).toArrow()
    except Exception as error:
        if "maxResultSize" in str(error):
            table.jvm.fallbacks.count("large rows")
            return None
        raise
    if len(found) > AT_MOST:
        table.jvm.fallbacks.count("few changes with many rows")
        return None
    return found


def read(schema: pa.Schema, chosen: Sequence[tuple[LiveFile, Bits | None]]) -> pa.Table | None:
    """Rows at chosen positions of data files (None: all of them), with the table's columns; None if that is too much
    for the driver, or if a file is not like the table is now."""
    sizes = sum(file.java.fileSizeInBytes() for file, _ in chosen)
    if sizes > READABLE:
        return None
    parts: list[pa.Table] = []
    total = 0
    for file, bits in chosen:
        found = _file(file.location, schema)
        if found is None:
            return None
        parts.append(found if bits is None else found.take(pa.array(bits.to_array(), pa.int64())))
        total += parts[-1].nbytes
        if total > KEPT:
            return None
    return pa.concat_tables(parts) if parts else _plain(schema).empty_table()


def content(
    table: LakeTable, java: JavaTable, schema: pa.Schema, files: RecentFiles, snapshot: int
) -> pa.Table | None:
    """All rows of a small table at one of its newest snapshots; None: that is for Spark to read."""
    lives = files.of(java, recent(table, java))
    live = next((x for x in lives if x.snapshot == snapshot), None)
    if live is None or any(f.equality for f in live.values()):
        return None
    chosen: list[tuple[LiveFile, Bits | None]] = []
    for location, file in live.items():
        rows: Bits | None = None
        if file.deletes:
            rows = Bits()
            rows.add_range(0, file.rows)
            rows -= live.dead(location)
        chosen.append((file, rows))
    return read(schema, chosen)


def _file(location: str, schema: pa.Schema) -> pa.Table | None:
    ids = tuple(int(f.metadata[b"PARQUET:field_id"]) for f in schema)
    types = tuple(f.type for f in schema)
    return _read_file(location, ids, tuple(schema.names), types)


def _read_file(
    location: str, ids: tuple[int, ...], shown: tuple[str, ...], types: tuple[pa.DataType, ...]
) -> pa.Table | None:
    """The columns of a data file. It never changes, and is small, so it is kept for a while."""
    if not location.startswith(("file:", "/")):
        return None
    at = (location, ids, shown, types)
    known = _files.get(at)
    if known is not None:
        return known
    path = "/" + location.removeprefix("file:").lstrip("/")
    found = pq.ParquetFile(path)
    names = _names(found.schema_arrow)
    if any(i not in names for i in ids):
        return None
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in found.iter_batches(AT_ONCE, columns=[names[i] for i in ids]):
        batches.append(batch)
        size += batch.nbytes
        if size > KEPT:
            return None
    schema = batches[0].schema if batches else found.schema_arrow
    table = pa.Table.from_batches(batches, schema)
    columns = [table[names[i]].cast(x) for i, x in zip(ids, types, strict=True)]
    made = pa.table(columns, pa.schema(list(zip(shown, types, strict=True)))).combine_chunks()
    _files.keep(at, made, made.nbytes)
    return made


_files: Recent[tuple[object, ...], pa.Table] = Recent(KEPT)


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, f.type) for f in schema])


def _names(schema: pa.Schema) -> Mapping[int, str]:
    """The columns of a file by their field ids."""
    found: dict[int, str] = {}
    for field in schema:
        text = (field.metadata or {}).get(b"PARQUET:field_id")
        if text is not None:
            found[int(text)] = field.name
    return found
