"""Changes of rows with a key: what they look like, and how those of one key fold into one outcome.

A frame of changes has a table's columns and, beside them, what happened (`OP`) and where it stood in its source
(`STREAM`, `PARTITION`, `OFFSET`); `UNSET` lists the columns whose value a change does not tell.
"""

from __future__ import annotations

from dataclasses import dataclass

OP = "_icestream_op"
UNSET = "_icestream_unset"
STREAM = "_icestream_stream"
PARTITION = "_icestream_partition"
OFFSET = "_icestream_offset"

CHANGE_SCHEMA = {
    OP: "TINYINT",
    UNSET: "ARRAY<INT>",
    STREAM: "STRING",
    PARTITION: "INT",
    OFFSET: "BIGINT",
}
"""The columns of a change beside those of its row, with their types in Spark."""

UPSERT, DELETE, TRUNCATE = 1, -1, 0


@dataclass(frozen=True)
class Upsert:
    """How rows are told apart and what happens when one is there already.

    `conflict` is overwrite, nothing (the first stays) or fill (NULL leaves the old value); with a `version`
    column a change counts only if its version is not less than the row's.
    """

    key: tuple[str, ...]
    conflict: str = "overwrite"
    version: tuple[str, ...] = ()
