"""Changes of rows with a key: what they look like, and how those of one key fold into one outcome.

A frame of changes has a table's columns and, beside them, what happened (`OP`) and where it stood in its source
(`STREAM`, `PARTITION`, `OFFSET`); `UNSET` lists the columns whose value a change does not tell. The rows that are
stored already come in as changes too (`STORED`) where the outcome depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Indices = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

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

UPSERT, DELETE, TRUNCATE, STORED, PATCH = 1, -1, 0, 2, 3
"""PATCH sets some columns of a row that is there (UNSET lists the others); if the row is gone it does nothing."""


@dataclass(frozen=True)
class Upsert:
    """How rows are told apart and what happens when one is there already.

    `conflict` is overwrite, nothing (the first stays) or fill (NULL leaves the old value); with a `version`
    a change counts only if its version is not less than the row's.

    Two more are for changes in no order, rows that came and rows that went, which are netted by the whole row: net (no two
    rows have the same key) and bag (any number of rows may be alike; the key is the whole row, and as many of them
    go as are taken back).
    """

    key: tuple[str, ...]
    conflict: str = "overwrite"
    version: tuple[str, ...] = ()

    @property
    def keyed(self) -> bool:
        """Whether no two rows have the same key."""
        return self.conflict != "bag"

    @property
    def needs_stored(self) -> bool:
        """Whether the outcome depends on what the row holds that is there already."""
        return self.conflict == "fill" or bool(self.version)


@dataclass(frozen=True)
class Outcome:
    """What the changes come to: the keys whose old rows go, and the rows that come in their place."""

    keys: list[pa.Array]
    """The touched keys, canonical, one row a key."""
    hashes: npt.NDArray[np.int64]
    rows: pa.Table
    """The new rows, with the columns that were asked for."""
    key_of_row: Indices
    """Which of the touched keys each new row has."""
    cleared: Mask
    """Of each touched key: whether a delete is among its changes, so that what was there before does not count."""
    gone: Indices | None = None
    """Of each touched key of a bag: how many of its rows go."""
    returning: Mask | None = None
    """Of each new row: whether one goes that differs in nothing but the sign of a zero. None: of no row."""


def fold(changes: pa.Table, columns: Sequence[str], upsert: Upsert) -> Outcome:
    """Fold all changes of each key in source order. `columns` are those of the rows; UNSET counts by their order."""
    import numpy as np
    import pyarrow as pa

    from icestream.lake import keys

    key = [keys.canonical(changes[name]) for name in upsert.key]
    hashed = keys.hashes(key)
    op = changes[OP].to_numpy()
    order = _source_order(changes, op, hashed, key)
    hashed, op = hashed[order], op[order]
    key = [k.take(pa.array(order)) for k in key]
    first = _starts(hashed, key)
    group = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    place = np.arange(len(order))

    deleted = np.where(op == DELETE, place, -1)
    last_delete = np.maximum.reduceat(deleted, starts) if len(starts) else deleted
    counts = (place > last_delete[group]) & (op != DELETE)
    if (op == PATCH).any():
        whole = np.where(counts & (op != PATCH), place, len(place))
        counts &= (op != PATCH) | (place > np.minimum.reduceat(whole, starts)[group])
    if upsert.version:
        counts &= _newest(changes, upsert.version, order, counts, group)

    best = np.full(len(starts), -1)
    if upsert.conflict == "nothing":
        best[group[counts][::-1]] = place[counts][::-1]  # the first one is written last
    else:
        best[group[counts]] = place[counts]
    if upsert.conflict == "fill":
        news = np.zeros(len(starts), bool)
        news[group[counts & (op != STORED)]] = True
        unchanged = (best >= 0) & ~news
    else:
        unchanged = (best >= 0) & (op[best] == STORED)
    touched = np.flatnonzero(~unchanged)
    winners = best[touched]
    present = winners >= 0
    rows = _rows(changes, columns, upsert, order, counts, group, winners[present])
    return Outcome(
        [k.take(pa.array(starts[touched])) for k in key],
        hashed[starts[touched]],
        rows,
        np.flatnonzero(present),
        last_delete[touched] >= 0,
    )


def net(changes: pa.Table, columns: Sequence[str], upsert: Upsert) -> Outcome:
    """What rows that came and went in no order come to. Those that did both are left out.

    -0.0 and 0.0 are two values here, so that what is stored is what came; unless a row went with another zero than it came.
    """
    try:
        return _net(changes, columns, upsert, signed_zeros=True)
    except ValueError:
        return _net(changes, columns, upsert, signed_zeros=False)


def _net(
    changes: pa.Table, columns: Sequence[str], upsert: Upsert, *, signed_zeros: bool
) -> Outcome:
    import numpy as np
    import pyarrow as pa

    from icestream.lake import keys

    op = changes[OP].to_numpy().astype(np.int64)
    order, starts = _alike(
        [keys.canonical(changes[name], signed_zeros=signed_zeros) for name in columns]
    )
    total = np.add.reduceat(op[order], starts) if len(starts) else op
    left = np.flatnonzero(total)
    total = total[left]
    rows = changes.select(list(columns)).take(pa.array(order[starts[left]]))
    key = [keys.canonical(rows[name]) for name in upsert.key]
    order, starts = _alike(key)
    group = np.zeros(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    copies = np.maximum(total, 0)
    gone: Indices | None = None
    if upsert.conflict == "bag":
        gone = np.zeros(len(starts), np.int64)
        np.add.at(gone, group, np.maximum(-total, 0))
    elif len(starts) and np.bincount(group, copies).max() > 1:
        raise ValueError(f"{DOUBLE_KEY}{', '.join(upsert.key)}")
    repeated = np.repeat(np.arange(len(total)), copies)
    returning = _returning(rows, total) if signed_zeros else None
    picked = pa.array(order[starts])
    key = [k.take(picked) for k in key]
    return Outcome(
        key, keys.hashes(key), rows.take(pa.array(repeated)), group[repeated],
        np.ones(len(starts), bool), gone, None if returning is None else returning[repeated],
    )  # fmt: skip


def _returning(rows: pa.Table, total: Indices) -> Mask | None:
    """Of each row: whether another goes that differs in nothing but the sign of a zero; None if no row has such zeros."""
    import numpy as np

    from icestream.lake import keys

    one_zero = [keys.canonical(column) for column in rows.columns]
    signed = [keys.canonical(column, signed_zeros=True) for column in rows.columns]
    if all(one.equals(other) for one, other in zip(one_zero, signed, strict=True)):
        return None
    order, starts = _alike(one_zero)
    least = np.minimum.reduceat(total[order], starts)
    found = np.zeros(len(order), bool)
    found[order] = np.repeat(least < 0, np.diff(np.append(starts, len(order))))
    return found


DOUBLE_KEY = "two rows have the same key: "
NOT_THERE = "rows that are to go are not there"


def _alike(columns: list[pa.Array]) -> tuple[Indices, Indices]:
    """An order in which equal rows stand together, and where in it the next ones begin."""
    import numpy as np

    from icestream.lake import keys

    hashed = keys.hashes(columns)
    order = np.argsort(hashed, kind="stable")
    sorted_columns = [c.take(order) for c in columns]
    clashes = _clashing(hashed[order], sorted_columns)
    if clashes is not None:
        code = _told_apart(order[clashes], columns, len(order))
        order = np.lexsort((code, hashed))
        sorted_columns = [c.take(order) for c in columns]
    return order, np.flatnonzero(_starts(hashed[order], sorted_columns))


def _told_apart(rows: Indices, columns: list[pa.Array], count: int) -> Indices:
    """Numbers that tell different keys apart which have one hash."""
    import numpy as np

    number: dict[tuple[object, ...], int] = {}
    code = np.zeros(count, np.int64)
    for row in rows:
        value = tuple(c[int(row)].as_py() for c in columns)
        code[row] = number.setdefault(value, len(number))
    return code


def _source_order(changes: pa.Table, op: Indices, hashed: Indices, key: list[pa.Array]) -> Indices:
    """Rows by key and, within a key, in source order: the stored row first, a delete before an insert at one place."""
    import numpy as np

    rank = np.where(op == STORED, -2, op)
    offset = changes[OFFSET].to_numpy()
    partition = changes[PARTITION].to_numpy()
    sort_by = [rank, offset]
    if len(partition) and (partition != partition[0]).any():
        sort_by.append(partition)
    encoded = changes[STREAM].combine_chunks().dictionary_encode()
    streams = encoded.dictionary.to_pylist() if len(encoded) else []
    if len(streams) > 1:
        sorted_streams = np.argsort(np.argsort(np.array(streams, dtype=object)))
        sort_by.append(sorted_streams[encoded.indices.to_numpy()])
    if (op == STORED).any():
        sort_by.append(op != STORED)
    order = np.lexsort((*sort_by, hashed))
    clashes = _clashing(hashed[order], [k.take(order) for k in key])
    if clashes is not None:  # different keys with one hash: tell them apart by value
        code = _told_apart(order[clashes], key, len(order))
        order = np.lexsort((*sort_by, code, hashed))
    return order


def _clashing(hashed: Indices, key: list[pa.Array]) -> Mask | None:
    """Rows (sorted by hash) whose hash is that of another key too; None if there are none."""
    import numpy as np

    from icestream.lake import keys

    if len(hashed) < 2:
        return None
    same_hash = hashed[1:] == hashed[:-1]
    same_key = keys.equal([k[1:] for k in key], [k[:-1] for k in key])
    bad = same_hash & ~same_key
    return np.isin(hashed, hashed[1:][bad]) if bad.any() else None


def _starts(hashed: Indices, key: list[pa.Array]) -> Mask:
    """Where, in rows sorted by key, the next key begins."""
    import numpy as np

    from icestream.lake import keys

    first = np.ones(len(hashed), bool)
    if len(hashed) > 1:
        same = hashed[1:] == hashed[:-1]
        same &= keys.equal([k[1:] for k in key], [k[:-1] for k in key])
        first[1:] = ~same
    return first


def _newest(
    changes: pa.Table, version: Sequence[str], order: Indices, counts: Mask, group: Indices
) -> Mask:
    """Which changes have a version that is not less than any before them, of the same key.

    NULL is the least; NaN is more than every number, as it is in PostgreSQL and Spark.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from icestream.lake import keys

    columns = pa.table({f"v{i}": _sortable(changes[name]) for i, name in enumerate(version)})
    by_version = pc.sort_indices(
        columns, [(name, "ascending", "at_start") for name in columns.column_names]
    ).to_numpy()
    sorted_values = [keys.canonical(c.take(pa.array(by_version))) for c in columns.columns]
    step = np.zeros(len(order), np.int64)
    step[1:] = ~keys.equal([v[1:] for v in sorted_values], [v[:-1] for v in sorted_values])
    rank = np.empty(len(order), np.int64)
    rank[by_version] = np.cumsum(step)
    rank = np.where(counts, rank[order], -1)
    height = len(order) + 2  # groups ascend, so that one running maximum serves all of them
    return np.asarray(rank + group * height >= np.maximum.accumulate(rank + group * height))


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Floats as integers of the same order, but for NaN, which Arrow would put beside NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from icestream.lake import keys

    if not pa.types.is_floating(column.type):
        return column
    bits = keys.canonical(column)
    return pc.if_else(pc.less(bits, 0), pc.bit_wise_xor(bits, 2**63 - 1), bits)


def _rows(
    changes: pa.Table,
    columns: Sequence[str],
    upsert: Upsert,
    order: Indices,
    counts: Mask,
    group: Indices,
    winners: Indices,
) -> pa.Table:
    """The winners' rows; a value that a winner does not tell is the last one told before it."""
    import numpy as np
    import pyarrow as pa

    rows = changes.select(list(columns)).take(pa.array(order[winners]))
    untold = _unset(changes, len(columns)) if UNSET in changes.column_names else {}
    if upsert.conflict == "fill":
        untold = {
            i: changes[name].is_null().to_numpy()
            for i, name in enumerate(columns)
            if name not in (*upsert.key, *upsert.version) and changes[name].null_count
        }
    place = np.arange(len(order))
    if upsert.conflict == "nothing":  # what comes after the winner tells nothing
        counts = np.zeros(len(order), bool)
        counts[winners] = True
    for ordinal, mask in untold.items():
        told = counts & ~mask[order]
        last = np.full(int(group[-1]) + 1 if len(group) else 0, -1)
        last[group[told]] = place[told]
        source = last[group[winners]]
        picked = pa.array(order[source], mask=source < 0)
        rows = rows.set_column(
            ordinal, rows.schema.field(ordinal), changes[columns[ordinal]].take(picked)
        )
    return rows


def _unset(changes: pa.Table, width: int) -> dict[int, Mask]:
    """For each column that some change does not tell: which ones do not."""
    import numpy as np
    import pyarrow.compute as pc

    unset = changes[UNSET].combine_chunks()
    if unset.null_count == len(unset):
        return {}
    parents = pc.list_parent_indices(unset).to_numpy()
    ordinals = pc.list_flatten(unset).to_numpy()
    masks = {}
    for ordinal in np.unique(ordinals):
        mask = np.zeros(len(unset), bool)
        mask[parents[ordinals == ordinal]] = True
        masks[int(ordinal)] = mask
    return masks
