"""Folding changes, against a dictionary that takes them one by one."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from icestream.lake import keys
from icestream.lake.fold import (
    DELETE,
    OFFSET,
    OP,
    PARTITION,
    PATCH,
    STORED,
    STREAM,
    UNSET,
    UPSERT,
    Upsert,
    fold,
    net,
)
from icestream.lake.keyed import ROW_ID, _Sum, _Union, _Work

COLUMNS = ("lane", "id", "name", "score", "version")
SCHEMA = pa.schema(
    [
        ("lane", pa.int64()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("version", pa.int32()),
        (OP, pa.int8()),
        (UNSET, pa.list_(pa.int32())),
        (STREAM, pa.string()),
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
    ]
)
RULES = [
    Upsert(("lane", "id")),
    Upsert(("lane", "id"), "nothing"),
    Upsert(("lane", "id"), "fill"),
    Upsert(("lane", "id"), version=("version",)),
    Upsert(("lane", "id"), "fill", version=("version",)),
    Upsert(("lane", "id"), version=("version", "score")),
    Upsert(("lane",)),
    Upsert(("lane",), "fill", version=("score",)),
]
LANES = 100
Row = dict[str, Any]


def rank(value: float | None) -> tuple[int, float]:
    """NULL is less than everything, NaN more than every number."""
    if value is None:
        return 0, 0
    return (2, 0) if math.isnan(value) else (1, value)


class Model:
    """The table as a dictionary."""

    def __init__(self, upsert: Upsert) -> None:
        self.upsert = upsert
        self.rows: dict[tuple[Any, ...], Row] = {}

    def key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.upsert.key)

    def apply(self, change: Row) -> None:
        key, rule = self.key(change), self.upsert
        if change[OP] == DELETE:
            self.rows.pop(key, None)
            return
        old = self.rows.get(key)
        new = {name: change[name] for name in COLUMNS}
        untold = {COLUMNS[i] for i in change[UNSET] or ()}
        if old is not None:
            if rule.conflict == "nothing":
                return
            if [rank(new[v]) for v in rule.version] < [rank(old[v]) for v in rule.version]:
                return
            for name in set(COLUMNS) - set(rule.key) - set(rule.version):
                if name in untold or (rule.conflict == "fill" and new[name] is None):
                    new[name] = old[name]
        self.rows[key] = new


def changes_of_a_lane(lane: int, r: random.Random, upsert: Upsert) -> list[Row]:
    """Some stored rows, and changes with duplicates among them, out of order."""
    ids = "abc" if len(upsert.key) > 1 else "a"
    rows: list[Row] = []
    for id in ids:
        if r.random() < 0.5:
            rows.append(change(lane, id, r, STORED, "", -1, -1))
    for _ in range(r.randrange(9)):
        op = r.choice((UPSERT, UPSERT, DELETE))
        id = r.choice(ids) if len(upsert.key) > 1 else r.choice("abc")
        place = (r.choice("st"), r.randrange(2), r.randrange(6))
        again = [x for x in rows if (x[STREAM], x[PARTITION], x[OFFSET]) == place]
        if not again:
            rows.append(change(lane, id, r, op, *place))
        elif op == DELETE and len(again) == 1 and again[0][OP] == UPSERT:
            rows.append(change(lane, id, r, op, *place))  # a changed key: two changes, one place
    r.shuffle(rows)
    return rows


def change(
    lane: int, id: str, r: random.Random, op: int, stream: str, partition: int, offset: int
) -> Row:
    untold = op == UPSERT and r.random() < 0.2
    return {
        "lane": lane,
        "id": id,
        "name": None if untold else r.choice(("x", "y", "z", None)),
        "score": r.choice((None, math.nan, -0.0, 0.0, 1.5)),
        "version": r.choice((None, 1, 2, 3)),
        OP: op,
        UNSET: [2] if untold else None,
        STREAM: stream,
        PARTITION: partition,
        OFFSET: offset,
    }


def in_source_order(rows: list[Row]) -> list[Row]:
    place = lambda x: (x[OP] != STORED, x[STREAM], x[PARTITION], x[OFFSET], x[OP])  # noqa: E731
    return sorted(rows, key=place)


def plain(value: object) -> object:
    """A value that equals itself, and no other zero than itself."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value)
    return value.decode() if isinstance(value, bytes) else value


def content(rows: list[Row], upsert: Upsert) -> dict[tuple[Any, ...], list[object]]:
    found = {
        tuple(r[k] for k in upsert.key): [plain(r[c]) for c in (*COLUMNS[:3], "version")]
        + [plain(r["score"])]
        for r in rows
    }
    assert len(found) == len(rows), "a key twice"
    return found


@pytest.mark.parametrize("clash", [False, True], ids=["hashes", "clashing hashes"])
@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 2**32), rule=st.sampled_from(RULES))
def test_any_changes_fold_as_one_by_one(clash: bool, seed: int, rule: Upsert) -> None:
    r = random.Random(seed)
    lanes = [changes_of_a_lane(lane, r, rule) for lane in range(LANES)]
    rows = [row for lane in lanes for row in lane]
    r.shuffle(rows)
    model, before = Model(rule), Model(rule)
    for row in in_source_order(rows):
        if row[OP] == STORED:
            before.apply(row)
        model.apply(row)
    with pytest.MonkeyPatch.context() as patch:
        if clash:
            real = keys.hashes
            patch.setattr(keys, "hashes", lambda columns: real(columns) % 37)
        outcome = fold(chunked(rows, r), COLUMNS, rule)
    note(f"{rule} seed {seed}")

    touched = list(zip(*(k.to_pylist() for k in outcome.keys), strict=True))
    touched = [tuple(map(plain, key)) for key in touched]
    assert len(set(touched)) == len(touched)
    new = outcome.rows.to_pylist()
    assert [touched[i] for i in outcome.key_of_row] == [model.key(row) for row in new]
    kept = [row for key, row in before.rows.items() if key not in set(touched)]
    assert content(kept + new, rule) == content(list(model.rows.values()), rule)


def chunked(rows: list[Row], r: random.Random) -> pa.Table:
    """The rows in several chunks, as Spark's batches come."""
    cut = r.randrange(len(rows) + 1)
    parts = [pa.Table.from_pylist(part, SCHEMA) for part in (rows[:cut], rows[cut:])]
    return pa.concat_tables(parts)


def test_repeated_and_reordered_events_change_nothing() -> None:
    """The same events once, twice, in any order of arrival."""
    r = random.Random(5)
    rule = Upsert(("lane", "id"))
    rows = [x for lane in range(20) for x in changes_of_a_lane(lane, r, rule) if x[OP] != STORED]
    once = fold(chunked(rows, r), COLUMNS, rule)
    twice = [*rows, *rows]
    r.shuffle(twice)
    again = fold(chunked(twice, r), COLUMNS, rule)
    assert content(once.rows.to_pylist(), rule) == content(again.rows.to_pylist(), rule)
    assert sorted(once.hashes) == sorted(again.hashes)


def test_nothing_folds_to_nothing() -> None:
    outcome = fold(SCHEMA.empty_table(), COLUMNS, Upsert(("lane", "id")))
    assert (len(outcome.hashes), len(outcome.rows), len(outcome.key_of_row)) == (0, 0, 0)


def test_a_patch_sets_its_columns_of_a_row_that_is_there() -> None:
    """Against a dictionary: stored rows, then upserts, deletes and patches in random order."""
    r = random.Random(11)
    for _ in range(200):
        stored = {k: [k, r.randrange(9), r.randrange(9)] for k in range(4) if r.random() < 0.5}
        model = {k: list(row) for k, row in stored.items()}
        found: list[tuple[list[int], int, list[int] | None, int]] = [
            (row, STORED, None, -1) for row in stored.values()
        ]
        for offset in range(r.randrange(1, 9)):
            row = [r.randrange(4), r.randrange(9), r.randrange(9)]
            op, kept = r.choice([UPSERT, DELETE, PATCH]), r.choice([1, 2])
            found.append((row, op, [kept] if op == PATCH else None, offset))
            if op == UPSERT:
                model[row[0]] = row
            elif op == DELETE:
                model.pop(row[0], None)
            elif row[0] in model:
                old = model[row[0]]
                model[row[0]] = [old[i] if i == kept else row[i] for i in range(3)]
        names = ("k", "a", "b")
        changes = pa.table(
            {name: [row[i] for row, *_ in found] for i, name in enumerate(names)}
            | {
                OP: pa.array([op for _, op, _, _ in found], pa.int8()),
                UNSET: pa.array([unset for _, _, unset, _ in found], pa.list_(pa.int32())),
                STREAM: [""] * len(found),
                PARTITION: pa.array([-1 if o < 0 else 0 for *_, o in found], pa.int32()),
                OFFSET: pa.array([o for *_, o in found], pa.int64()),
            }
        )
        outcome = fold(changes, names, Upsert(("k",)))
        touched = set(outcome.keys[0].to_pylist())
        after = {k: row for k, row in stored.items() if k not in touched}
        after |= {row["k"]: list(row.values()) for row in outcome.rows.to_pylist()}
        assert after == model


def test_a_stored_row_that_stays_is_not_touched() -> None:
    r = random.Random(1)
    stored = change(1, "a", r, STORED, "", -1, -1) | {"version": 5}
    late = change(1, "a", r, UPSERT, "s", 0, 1) | {"version": 4}
    for rule in (Upsert(("lane", "id"), "nothing"), Upsert(("lane", "id"), version=("version",))):
        assert len(fold(chunked([late, stored], r), COLUMNS, rule).hashes) == 0, rule


# -- keys --------------------------------------------------------------------------------------------

SOME = datetime(2024, 5, 6, 7, 8, 9, 123456)
VALUES: list[tuple[list[pa.DataType], list[object]]] = [
    ([pa.bool_()], [None, True, False]),
    ([pa.int64(), pa.int32(), pa.int16(), pa.int8()], [None, 0, 1, -1, 127]),
    ([pa.int64()], [None, 0, 2**63 - 1, -(2**63), 2**40]),
    (
        [pa.decimal128(20, 2), pa.decimal128(38, 2), pa.decimal128(5, 2)],
        [None, Decimal("0.00"), Decimal("-1.50"), Decimal("1.50"), Decimal("999.99")],
    ),
    ([pa.decimal128(38, 0)], [None, Decimal(10) ** 30, Decimal(10) ** 30 + 2**64, Decimal(1)]),
    (
        [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()],
        [None, "", "a", "ab", "ü", "日本", "a\x00"],
    ),
    (
        [pa.binary(), pa.large_binary(), pa.binary_view()],
        [None, b"", b"\x00", b"\x00\x00", b"\xff"],
    ),
    ([pa.date32(), pa.date64()], [None, date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29)]),
    ([pa.timestamp("us"), pa.timestamp("ns")], [None, SOME, SOME.replace(microsecond=0)]),
    (
        [pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo")],
        [None, SOME.replace(tzinfo=UTC), SOME.replace(tzinfo=UTC, year=1960)],
    ),
    ([pa.float64(), pa.float32()], [None, 0.0, 1.5, -1.5, math.nan, math.inf, -math.inf]),
]


@pytest.mark.parametrize(("types", "values"), VALUES, ids=lambda v: str(v[0])[:30])
def test_keys_are_equal_whatever_type_holds_them_and_differ_otherwise(
    types: list[pa.DataType], values: list[object]
) -> None:
    columns = [keys.canonical(pa.array(values, type)) for type in types]
    hashed = keys.hashes(columns[:1])
    assert len(set(hashed)) == len(values), "a NULL, an empty text and the like differ"
    for column in columns[1:]:
        assert column.type == columns[0].type
        assert keys.equal(columns[:1], [column]).all()
        assert (keys.hashes([column]) == hashed).all()
    for shift in range(1, len(values)):
        other = columns[0].take(pa.array(np.roll(np.arange(len(values)), shift)))
        assert not keys.equal(columns[:1], [other]).any()
    sliced = pa.concat_arrays([columns[0], columns[0]])[len(values) - 1 :]
    assert (keys.hashes([sliced])[1:] == hashed).all(), "a slice hashes as a copy does"


def test_one_zero_and_one_nan() -> None:
    other_nan = np.array([0x7FF8000000000123], np.uint64).view(np.float64)[0]
    floats = keys.canonical(pa.array([0.0, -0.0, math.nan, -math.nan, other_nan, 1.0]))
    hashed = keys.hashes([floats])
    assert hashed[0] == hashed[1]
    assert hashed[2] == hashed[3] == hashed[4]
    assert len(set(hashed)) == 3
    assert floats[0] == floats[1]
    assert floats[2] == floats[3] == floats[4]


def test_the_columns_of_a_key_do_not_run_together() -> None:
    texts = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), (None, "abc"), ("abc", None)]
    pair = [keys.canonical(pa.array(column)) for column in zip(*texts, strict=True)]
    assert len(set(keys.hashes(pair))) == len(texts)
    assert len(set(keys.hashes([pair[1], pair[0]])) & set(keys.hashes(pair))) <= len(texts) - 1


def test_the_hash_spreads() -> None:
    numbers = keys.hashes([pa.array(np.arange(20_000))])
    assert len(set(numbers)) == 20_000
    counts = np.bincount(numbers.view(np.uint64) >> np.uint64(60), minlength=16)
    assert counts.min() > 1_100


FLOATS = (None, math.nan, -0.0, 0.0, 1.5)
NET_SCHEMA = pa.schema(
    [("id", pa.int64()), ("x", pa.float64()), ("xs", pa.list_(pa.float64())), (OP, pa.int8())]
)
NET_COLUMNS = ("id", "x", "xs")
NET = Upsert(("id",), "net")
BAG = Upsert(NET_COLUMNS, "bag")


def netted(changes: list[tuple[int, Row]], rule: Upsert) -> pa.Table:
    """The new rows of changes to a table that is empty, by what an executor does."""
    table = pa.Table.from_pylist([{**row, OP: op} for op, row in changes], NET_SCHEMA)
    found, vanished = _Sum({}, _Union().addInPlace), _Sum(0, int.__add__)
    work = _Work(NET_COLUMNS, rule, "", (), {}, {}, found, vanished)
    made = list(work.run(iter(table.to_batches())))
    return pa.Table.from_batches(made).drop([ROW_ID]) if made else NET_SCHEMA.empty_table()


def exactly(row: Row) -> tuple[object, ...]:
    return tuple(repr(row[name]) for name in NET_COLUMNS)


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(FLOATS), st.lists(st.sampled_from(FLOATS), max_size=2)),
        max_size=12,
    ),
    went=st.integers(0, 4),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_rows_without_a_key_are_stored_as_they_came(
    rows: list[tuple[Any, ...]], went: int, seed: int
) -> None:
    r = random.Random(seed)
    came = [dict(zip(NET_COLUMNS, row, strict=True)) for row in rows]
    gone = r.sample(came, min(went, len(came)))
    changes = [(UPSERT, row) for row in came] + [(DELETE, row) for row in gone]
    r.shuffle(changes)
    expected = Counter(map(exactly, came)) - Counter(map(exactly, gone))
    assert Counter(map(exactly, netted(changes, BAG).to_pylist())) == expected


@settings(max_examples=200, deadline=None)
@given(
    before=st.dictionaries(st.integers(0, 5), st.sampled_from(FLOATS), max_size=5),
    after=st.dictionaries(st.integers(0, 5), st.sampled_from(FLOATS), max_size=5),
)
def test_a_row_gets_the_zero_that_came(
    before: dict[int, float | None], after: dict[int, float | None]
) -> None:
    changes = [{"id": id, "x": x, "xs": [x], OP: DELETE} for id, x in before.items()]
    changes += [{"id": id, "x": x, "xs": [x], OP: UPSERT} for id, x in after.items()]
    outcome = net(pa.Table.from_pylist(changes, NET_SCHEMA), NET_COLUMNS, NET)
    touched = [key.as_py() for key in outcome.keys[0]]
    stored = {id: x for id, x in before.items() if id not in touched}
    stored |= {row["id"]: row["x"] for row in outcome.rows.to_pylist()}
    assert {id: repr(x) for id, x in stored.items()} == {id: repr(x) for id, x in after.items()}


@pytest.mark.parametrize("rule", [NET, BAG], ids=["net", "bag"])
def test_a_row_that_came_and_went_with_another_zero_is_not_stored(rule: Upsert) -> None:
    came, went = ({"id": 1, "x": x, "xs": None} for x in (0.0, -0.0))
    other = {"id": 2, "x": -0.0, "xs": None}
    found = netted([(UPSERT, came), (DELETE, went), (UPSERT, other)], rule)
    assert [exactly(row) for row in found.to_pylist()] == [exactly(other)]
    again = netted([(UPSERT, came), (UPSERT, came), (DELETE, went)], rule)
    assert again.num_rows == 1
