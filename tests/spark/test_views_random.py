"""Random views on Spark and Iceberg: after every epoch each one holds what DuckDB gives for its query.

Views share one pipeline and its epochs, with a stop in the middle. A part of them runs over the same
history in another cut, and is made again at the very end, so that all they know is a backfill. SEED repeats a run,
ONLY=n runs its n-th view alone, VIEWS says how many there are.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from icestream.errors import SqlError
from tests.duck import bag, connect, render_duckdb
from tests.feeds import Feed, Row, Running
from tests.seeds import draw_seed
from tests.shapes import (
    FORMS,
    OPEN,
    Change,
    Contents,
    Query,
    Schema,
    cut,
    random_history,
    random_query,
    random_schema,
)
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

EPOCHS = 3
SAMPLE = 5  # every so many views are also asked for as queries, run in another cut, and made again


class Case:
    """A schema, a history and views, all from one seed."""

    def __init__(self) -> None:
        self.seed = draw_seed("views on Spark")
        r = random.Random(self.seed)
        self.schema: Schema = random_schema(r, tables=3)
        self.history = random_history(r, self.schema, 90, retract=False)
        self.epochs = cut(r, self.history, EPOCHS)
        self.other = cut(r, self.history, 2)
        forms = r.sample([*FORMS, *OPEN], len(FORMS) + len(OPEN))
        count = int(os.environ.get("VIEWS", "52"))
        made = [random_query(r, self.schema, form=forms[n % len(forms)]) for n in range(count)]
        only = os.environ.get("ONLY")
        self.queries = {n: q for n, q in enumerate(made) if only is None or n == int(only)}
        self.sample = {n: q for n, q in self.queries.items() if only or n % SAMPLE == 0}
        self.database = connect()

    def expected(self, contents: Contents, queries: Iterable[Query]) -> Iterator[Counter[Row]]:
        """What DuckDB gives for the text, or for the plan where it fails with an error of its own."""
        contents.load(self.database)
        inputs = {table.name: table.name for table in self.schema.tables}
        for query in queries:
            try:
                yield bag(self.database.execute(query.theirs).fetchall())
            except duckdb.InternalException:
                yield bag(self.database.execute(render_duckdb(query.node, inputs)).fetchall())

    def wrong(self, query: Query, found: Counter[Row], expected: Counter[Row]) -> str:
        """Nothing, or how they differ in what is no choice among ties."""
        found, expected = (Counter(query.settled(rows.elements())) for rows in (found, expected))
        if found == expected:
            return ""
        more, less = list(found - expected)[:5], list(expected - found)[:5]
        return f"({query.form}) {query.text}\n    too many: {more}\n    missing: {less}"


class Tables:
    """The case's tables in a home of their own."""

    def __init__(self, case: Case, root: Path) -> None:
        self.case = case
        self.contents = Contents(case.schema)
        self.feeds = {
            table.name: Feed(root / "input", table.name, table.names, keyed=bool(table.key))
            for table in case.schema.tables
        }

    def script(self) -> str:
        return "\n".join(
            f"CREATE TABLE {table.name} ({table.declared}) {self.feeds[table.name].clause};"
            for table in self.case.schema.tables
        )

    def write(self, changes: Sequence[Change]) -> None:
        self.contents.apply(changes)
        for name, feed in self.feeds.items():
            feed.write([(c.before, c.after) for c in changes if c.table == name])


def script(queries: dict[int, Query], prefix: str = "v") -> str:
    return "\n".join(
        f"CREATE MATERIALIZED VIEW {prefix}{n} AS {query.text};" for n, query in queries.items()
    )


def compare(
    case: Case, running: Running, tables: Tables, queries: dict[int, Query], prefix: str = "v"
) -> list[str]:
    found = []
    expected = case.expected(tables.contents, queries.values())
    for (n, query), rows in zip(queries.items(), expected, strict=True):
        if told := case.wrong(query, running.content(f"{prefix}{n}"), rows):
            found.append(f"ONLY={n} {told}")
    return found


def report(case: Case, when: str, found: list[str]) -> str:
    return f"SEED={case.seed}, {when}\n{case.schema}\n" + "\n".join(found)


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


def test_views_hold_what_their_queries_give(
    case: Case,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    tables = Tables(case, tmp_path)
    with Running(tmp_path / "home", spark) as running:
        running.execute(tables.script() + script(case.queries))
        for epoch, changes in enumerate(case.epochs):
            tables.write(changes)
            running.epoch()
            found = compare(case, running, tables, case.queries)
            assert not found, report(case, f"epoch {epoch}", found)
            if epoch == 0:
                running.resume()
        for n, query in case.sample.items():
            try:
                rows = running.rows(query.text)
            except SqlError as error:  # a subquery of several rows is NULL in a view only
                if error.code != "21000":
                    raise
                continue
            told = case.wrong(query, rows, running.content(f"v{n}"))
            assert not told, report(case, "the engine's own query", [f"ONLY={n} {told}"])
        running.execute(script(case.sample, "late"))
        running.epoch()
        found = compare(case, running, tables, case.sample, "late")
        assert not found, report(case, "made at the end", found)


def test_another_cut_ends_the_same(
    case: Case,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    tables = Tables(case, tmp_path)
    with Running(tmp_path / "home", spark) as running:
        running.execute(tables.script() + script(case.sample))
        for changes in case.other:
            tables.write(changes)
            running.epoch()
        found = compare(case, running, tables, case.sample)
        assert not found, report(case, "in another cut", found)
