"""The golden cases of views, `tests/sql/<feature>/*.sql`: the same rows in the end, however the history is cut.

All cases share one pipeline a cut, which is stopped and resumed in the middle. See `tests.golden_views` for the files,
and `tests/unit/plan/test_golden_views.py` for what the cases expect. ONLY=joins,views runs those cases alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.feeds import Feed, Running
from tests.golden_views import GoldenCase, cases
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

ONLY = os.environ.get("ONLY", "").split(",")
CASES = [case for case in cases() if any(part in case.name for part in ONLY)]


def wrong(running: Running, case: GoldenCase, *, end: bool) -> list[str]:
    found = []
    for name, expected in (case.expected if end else case.always).items():
        rows = running.content(name)
        if rows != expected:
            more, less = list((rows - expected).elements()), list((expected - rows).elements())
            found.append(f"{case.name} {name}: too many {more}, missing {less}")
    return found


def feeds_of(case_list: Sequence[GoldenCase], root: Path) -> dict[str, Feed]:
    return {
        table.name: Feed(root, table.name, [c for c, _ in table.columns], keyed=table.keyed)
        for case in case_list
        for table in case.tables
    }


@pytest.mark.parametrize("epochs", [1, 3])
def test_views_end_as_expected(epochs: int, spark: SparkSession, tmp_path: Path) -> None:
    feeds = feeds_of(CASES, tmp_path / "input")
    statements = [
        f"CREATE TABLE {table.name} ({table.declared}) {feeds[table.name].clause};"
        for case in CASES
        for table in case.tables
    ]
    views = [f"CREATE MATERIALIZED VIEW {n} AS {q};" for case in CASES for n, q in case.views]
    with Running(tmp_path / "home", spark) as running:
        running.execute("\n".join([*statements, *views]))
        for epoch in range(epochs):
            for case in CASES:
                part = case.cut(epochs)[epoch]
                for table in case.tables:
                    feeds[table.name].write([event for name, event in part if name == table.name])
            running.epoch()
            found = [told for case in CASES for told in wrong(running, case, end=False)]
            assert not found, f"epoch {epoch}\n" + "\n".join(found)
            if epoch == (epochs - 1) // 2:
                running.resume()
                running.epoch()
        found = [told for case in CASES for told in wrong(running, case, end=True)]
        assert not found, "\n".join(found)
