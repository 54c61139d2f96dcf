"""Tables with a key over FORMAT PLAIN, against dictionaries. With deletes and changed keys: tests/services/test_keyed.py."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.lake import index, keyed
from tests.engine import lake_table
from tests.keyed import (
    COLUMNS,
    DECLARED,
    RULES,
    Content,
    Model,
    applied,
    by_duckdb,
    by_pyiceberg,
    difference,
    lake_table_of,
    random_row,
    seeded,
)
from tests.spark_session import spark  # noqa: F401

pytestmark = pytest.mark.spark

LANES = 2_000


def test_rows_of_files_end_as_in_a_dictionary(
    tmp_path: Path,
    spark,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every conflict rule over the same files; what repeats in one epoch and what comes in a later one."""
    r = seeded()
    folder, home = tmp_path / "input", tmp_path / "home"
    folder.mkdir()
    source = f"WITH (connector = 'file', path = '{folder}', match_pattern = '*.json') FORMAT PLAIN ENCODE JSON"
    script = "\n".join(
        f"CREATE TABLE {name} ({DECLARED}) {rule} {source};" for name, rule in RULES.items()
    )
    monkeypatch.setattr(index, "TIER", 2)
    models = {rule: Model(rule) for rule in RULES}
    before: dict[str, tuple[int | None, Content]] = dict.fromkeys(RULES, (None, {}))
    for epoch in range(3):
        monkeypatch.setattr(keyed, "TOGETHER", 0 if epoch == 1 else 20_000)
        lanes = r.choices(range(LANES), k=LANES * 2 if epoch == 0 else 300)
        rows = [random_row(r, lane) for lane in lanes]
        rows += r.choices(rows, k=50)
        lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows]
        (folder / f"{epoch}.tmp").write_text("\n".join(lines) + "\n")
        (folder / f"{epoch}.tmp").rename(folder / f"{epoch}.json")
        with Engine(
            Home.at(home), EngineSettings(), application=spark, allow_paths=["/"]
        ) as engine:
            engine.execute(script)
            engine.run(threading.Event(), once=True)
            for rule, model in models.items():
                for row in rows:
                    model.put(row)
                name = f"public.{rule}"
                assert difference(by_pyiceberg(home, name), model.rows) == {}, (epoch, rule)
                head = lake_table(home, name).current_snapshot().snapshot_id
                start, content = before[rule]
                found = applied(content, lake_table_of(engine.spark, name), start, head)
                assert difference(found, model.rows) == {}, (epoch, rule)
                before[rule] = head, dict(model.rows)
    for rule, model in models.items():
        assert difference(by_duckdb(home, f"public.{rule}"), model.rows) == {}, rule
