"""Peer: PyIceberg's `upsert` of one batch that is in memory already: what it takes alone is timed.

    python -m benchmarks.peers.pyiceberg_upsert NAME CATALOG.db UPSERTS.parquet

It cannot delete: it gets the rows that the batch inserts and updates, the last one of each key.
"""

from __future__ import annotations

import json
import sys
import time

import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog


def main() -> None:
    name, catalog, file = sys.argv[1:]
    table = SqlCatalog(name, uri=f"sqlite:///{catalog}").load_table("bench.orders")
    rows = pq.read_table(file, schema=table.schema().as_arrow())
    begin = time.monotonic()
    done = table.upsert(rows, join_cols=["id"])
    seconds = time.monotonic() - begin
    folder = table.location().removeprefix("file:")
    written = done.rows_updated + done.rows_inserted
    print(json.dumps({"rows": written, "seconds": seconds, "table": f"/{folder.lstrip('/')}"}))


if __name__ == "__main__":
    main()
