"""What system relations show that is not in the catalog: snapshots and files in Iceberg, jobs, events.

Nothing here runs a Spark job, and each is asked for only when a query names its relation.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from icestream.catalog.objects import Object
from icestream.engine import Engine
from icestream.errors import ConnectorError, LakeError
from icestream.home_log import log_failure
from icestream.server.relations import model as system

if TYPE_CHECKING:
    from icestream.lake.java_types import JavaFile, JavaTable
    from icestream.lake.table import LakeTable

_LOG = logging.getLogger(__name__)

FIRST_OID = 16_384
"""OIDs below are PostgreSQL's own."""
CONTENT = {
    "DATA": "Data",
    "POSITION_DELETES": "PositionDeletes",
    "EQUALITY_DELETES": "EqualityDeletes",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def snapshots(engine: Engine) -> tuple[system.Snapshot, ...]:
    """All snapshots of all tables behind objects."""
    found: list[system.Snapshot] = []
    for object, table, java in _tables(engine):
        parser = table.jvm.iceberg.TableMetadataParser
        metadata = json.loads(parser.toJson(java.operations().current()))
        found += [_snapshot(object, raw) for raw in metadata.get("snapshots", ())]
    return tuple(found)


def _snapshot(object: Object, raw: dict[str, Any]) -> system.Snapshot:
    return system.Snapshot(
        FIRST_OID + object.id,
        raw["snapshot-id"],
        raw.get("sequence-number", 0),
        _EPOCH + timedelta(milliseconds=raw["timestamp-ms"]),
        raw.get("manifest-list", ""),
        json.dumps(raw["summary"]),
    )


def files(engine: Engine) -> tuple[system.File, ...]:
    """The files of the newest snapshots of all tables behind objects."""
    from icestream.lake.files import LiveFiles

    found: dict[object, system.File] = {}
    for object, table, java in _tables(engine):
        head = java.currentSnapshot()
        live = LiveFiles(table, java, None if head is None else head.snapshotId())
        for path, file in live.items():
            found[object.key, path] = _file(object, file.java)
            for delete in (*file.deletes, *file.equality):  # one file may hold many vectors
                shown = _file(object, delete)
                found[object.key, shown.path, delete.contentOffset()] = shown
    return tuple(found.values())


def _file(object: Object, java: JavaFile) -> system.File:
    return system.File(
        FIRST_OID + object.id,
        str(java.location()),
        CONTENT[str(java.content())],
        str(java.format()).lower(),
        java.recordCount(),
        java.fileSizeInBytes(),
    )


def _tables(engine: Engine) -> Iterator[tuple[Object, LakeTable, JavaTable]]:
    """The Iceberg tables behind objects, loaded; those of catalogs that do not answer are left out."""
    from icestream.lake.catalogs import Lake
    from icestream.runtime.travel import iceberg_tables

    pipeline = engine.opened
    if pipeline is None:
        return
    for object, table in iceberg_tables(engine.catalog, Lake(engine.spark), pipeline.record):
        try:
            java = table.load()
        except (ConnectorError, LakeError):
            log_failure(_LOG, "%s cannot be loaded and is left out", table.name)
            continue
        yield object, table, java


def jobs(engine: Engine) -> tuple[system.Job, ...]:
    """Statements that go on in the background."""
    return tuple(
        system.Job(
            job.id,
            job.statement,
            job.progress,
            datetime.fromtimestamp(job.created, UTC),
            job.background,
        )
        for job in engine.jobs
    )


def fallbacks(engine: Engine) -> tuple[system.Fallback, ...]:
    """Why Spark did what could have been done without it, since the start."""
    return tuple(system.Fallback(f.kind, f.reason, f.count) for f in engine.fallbacks())


def events(engine: Engine) -> tuple[system.Event, ...]:
    """What happened since the start, and when the objects of today were made."""
    found = [
        system.Event(e.id, e.at, e.type, json.dumps(e.as_dict())) for e in engine.events.newest()
    ]
    for stored in engine.store.objects():
        info = {
            "id": FIRST_OID + stored.id,
            "name": stored.name,
            "definition": engine.catalog.definition(stored.name),
        }
        at = datetime.fromtimestamp(stored.created, UTC)
        text = json.dumps({"createStreamJob": info})
        found.append(system.Event(f"created-{stored.id}", at, "CREATE_STREAM_JOB", text))
    return tuple(sorted(found, key=lambda e: e.at))
