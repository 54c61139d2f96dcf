import json
from collections import Counter
from datetime import datetime

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.changes import COLUMNS, History, base_records


def row(text: dict) -> dict:
    return {**text, "updated_at": datetime.fromisoformat(text["updated_at"])}


def table(path) -> dict:
    return {each["id"]: each for each in pq.read_table(path).to_pylist()}


@pytest.mark.parametrize("seed", [1, 2])
def test_the_expected_table_is_what_the_records_say_one_by_one(tmp_path, seed):
    history = History.begin(500, seed)
    rows = {}
    for start in (0, 1):
        for key, value in base_records(500, seed, start, 2):
            after = json.loads(value)["after"]
            assert json.loads(key) == {"id": after["id"]}
            rows[after["id"]] = row(after)
    assert table(history.write(tmp_path / "base.parquet")) == rows
    seen, deleted, revived = Counter(), set(), 0
    for _ in range(20):
        batch = history.batch(200)
        for id, key, value in batch.records():
            change = json.loads(value)
            assert json.loads(key) == {"id": id}
            seen[change["op"]] += 1
            before, after = change["before"], change["after"]
            assert rows.get(id) == (row(before) if before else None)
            revived += change["op"] == "c" and id in deleted
            if after is None:
                del rows[id]
                deleted.add(id)
            else:
                assert list(after) == list(COLUMNS)
                rows[id] = row(after)
        assert table(history.write(tmp_path / "now.parquet")) == rows
        assert history.rows == len(rows)
    assert revived > 20
    assert {op: round(count / 4000, 1) for op, count in seen.items()} == pytest.approx(
        {"u": 0.8, "c": 0.15, "d": 0.05}, abs=0.06
    )


def test_upserts_leave_deleted_rows_as_they_were(tmp_path):
    history, same = History.begin(500), History.begin(500)
    batch = same.batch(300)
    before = table(history.write(tmp_path / "before.parquet"))
    after = table(history.upserted(batch).write(tmp_path / "after.parquet"))
    upserts = {each["id"]: each for each in batch.upserts().to_pylist()}
    assert after == {**before, **upserts}
    assert np.isin(batch.ids[batch.after == -1], list(after)).all()


def test_changes_are_the_same_for_the_same_seed():
    one, same, other = (list(History.begin(99, seed).batch(50).records()) for seed in (1, 1, 2))
    assert one == same != other
    assert 250 < sum(len(value) for _, _, value in one) / len(one) < 420
