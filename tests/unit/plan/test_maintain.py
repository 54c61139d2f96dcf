"""The delta rules on DuckDB: after every epoch a view holds what its query gives as a batch.

Random schemas, histories and queries (see `tests.shapes`); some views are made in the middle of a history, with what
is there as their first delta. SEED repeats a run, ONLY=n looks at its n-th view alone, N says how many schemas there are
(`make fuzz`). The rules' plans are rendered for DuckDB by `tests.duck`; stored tables are bags of rows.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pytest

from icestream import types as t
from icestream.plan.logical import OutColumn
from icestream.plan.query import Relation
from icestream.plan.stages import Known
from tests.duck import bag
from tests.maintained import Lake, View
from tests.shapes import (
    FORMS,
    Change,
    Contents,
    Query,
    Schema,
    cut,
    net,
    random_history,
    random_query,
    random_schema,
)
from tests.unit.plan.tables import bind


@dataclass
class Case:
    """A schema, its history in epochs, and the views over it."""

    seed: int
    schema: Schema
    epochs: list[list[Change]]
    facts: dict[str, Known]
    queries: list[Query]
    starts: list[int]

    def failures(self, only: int | None = None) -> Iterator[str]:
        """Each view that went wrong, with all that is needed to see why; it is left alone then."""
        lake, contents = Lake(self.seed), Contents(self.schema)
        for table in self.schema.tables:
            lake.create(table.name, [OutColumn(c.name, c.type) for c in table.columns])
        views: dict[int, View] = {}
        wrong: set[int] = set()
        for epoch, changes in enumerate(self.epochs):
            for table in self.schema.tables:
                lake.feed(table.name, list(net(table, changes)))
            contents.apply(changes)
            for number, query in enumerate(self.queries):
                if only not in (None, number) or epoch < self.starts[number] or number in wrong:
                    continue
                try:
                    if number not in views:
                        views[number] = View(lake, query.node, self.facts, f"v{number}")
                    views[number].advance()
                    views[number].verify()
                except (AssertionError, LookupError, duckdb.Error) as error:
                    wrong.add(number)
                    yield self.told(number, epoch, contents, error)

    def told(self, number: int, epoch: int, contents: Contents, error: Exception) -> str:
        rows = "\n".join(f"{name}: {rows}" for name, rows in contents.rows.items())
        changes = "\n".join(map(str, self.epochs[epoch]))
        return (
            f"SEED={self.seed} ONLY={number} ({self.queries[number].form}), epoch {epoch} of a view made in epoch "
            f"{self.starts[number]}\n{self.schema}\n{self.facts}\n{self.queries[number].text}\n{type(error).__name__}: {error}\n"
            f"changes:\n{changes}\ntables:\n{rows}"
        )


def random_case(seed: int) -> Case:
    r = random.Random(seed)
    schema = random_schema(r)
    retract = r.random() < 0.5
    history = random_history(r, schema, r.choice((12, 30, 60)), retract=retract)
    epochs = cut(r, history, r.randint(2, 5))
    if retract:  # what the last epoch did is taken back
        undone = [Change(c.table, c.after, c.before) for c in reversed(epochs[-1])]
        epochs.append(undone)
    facts: dict[str, Known] = {}
    for table in schema.tables:
        grows = not table.key and not retract
        facts[table.name] = Known(table.key or None, grows, not grows or r.random() < 0.7)
    forms = r.sample(list(FORMS), len(FORMS) // 2)
    queries = [random_query(r, schema, form=form, depth=r.choice((0, 1, 1, 2))) for form in forms]
    starts = [0 if r.random() < 0.6 else r.randrange(len(epochs)) for _ in queries]
    return Case(seed, schema, epochs, facts, queries, starts)


def seeds() -> list[int]:
    if "SEED" in os.environ:
        return [int(os.environ["SEED"])]
    first = random.randrange(2**32)
    return [first + n for n in range(int(os.environ.get("N", "1")))]


@pytest.mark.parametrize("seed", seeds())
def test_views_hold_what_their_queries_give(seed: int) -> None:
    only = os.environ.get("ONLY")
    wrong = list(random_case(seed).failures(int(only) if only else None))
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    "call",
    [
        "sum(v) OVER (PARTITION BY g)",
        "avg(v) OVER (PARTITION BY g ORDER BY i)",
        "first_value(v) OVER (PARTITION BY g ORDER BY i)",
        "last_value(v) OVER (PARTITION BY g ORDER BY i)",
        "nth_value(v, 2) OVER (PARTITION BY g ORDER BY i)",
        "array_agg(v) OVER (PARTITION BY g ORDER BY i)",
    ],
)
def test_windows_take_back_what_they_gave(call: str) -> None:
    """Sums of floats and values among ties may differ with the order of the rows, which is another in each epoch.

    A batch may choose another row among ties, so that only the other columns can be compared there.
    """
    r = random.Random(1)
    columns = (("g", t.INTEGER), ("i", t.INTEGER), ("v", t.DOUBLE))
    lake = Lake(seed=1)
    lake.create("s", [OutColumn(*column) for column in columns])
    node = bind(f"SELECT g, i, v, {call} AS w FROM s", {"s": Relation("s", "s", columns)})
    view = View(lake, node, {"s": Known()}, "v")
    for _ in range(5):
        values = [(r.randint(1, 2), r.randint(1, 3), r.choice((0.1, 0.2, 0.7))) for _ in range(6)]
        lake.feed("s", [(row, 1) for row in values])
        view.advance()
        if call.startswith(("sum", "avg")):
            view.verify()
        given, held = (
            bag(lake.run(f"SELECT g, i, v FROM {lake.table(x)}").fetchall()) for x in "sv"
        )
        assert held == given
