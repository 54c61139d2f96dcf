"""The delta rules on DuckDB: after every epoch a view holds what its query gives as a batch.

Random schemas, histories and queries (see `tests.shapes`); some views are made in the middle of a history, with what
is there as their first delta. SEED repeats a run, ONLY=n looks at its n-th view alone, N says how many schemas there are
(`make fuzz`). The rules' plans are rendered for DuckDB by `tests.duck`; stored tables are bags of rows.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pytest

from icestream import types as t
from icestream.plan.linear import relations_read
from icestream.plan.logical import OutColumn
from icestream.plan.query import Relation
from icestream.plan.stages import Known
from tests.duck import bag
from tests.forms import LARGE
from tests.maintained import Lake, Row, View
from tests.seeds import draw_seeds
from tests.shapes import (
    FORMS,
    OPEN,
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
                lake.name(table.name, table.names)
            contents.apply(changes)
            for number, query in enumerate(self.queries):
                skipped = only is not None and number not in (only, *self.below(only))
                if skipped or epoch < self.starts[number] or number in wrong:
                    continue
                if wrong & set(self.below(number)):
                    wrong.add(number)
                    continue
                try:
                    if number not in views:
                        known = {f"v{n}": views[n].stages[-1].known for n in self.below(number)}
                        views[number] = View(lake, query.node, self.facts | known, f"v{number}")
                    views[number].advance()
                    settled = [c.name for c in query.columns if c.name not in query.open]
                    views[number].verify(query.theirs, settled)
                    views[number].name_in_duckdb()
                except (AssertionError, LookupError, duckdb.Error) as error:
                    wrong.add(number)
                    yield self.told(number, epoch, contents, error)

    def below(self, number: int) -> list[int]:
        """The views that a view reads, and those that they read."""
        read = relations_read(self.queries[number].node)
        own = [n for n in range(number) if f"v{n}" in read]
        return [*(m for n in own for m in self.below(n)), *own]

    def told(self, number: int, epoch: int, contents: Contents, error: Exception) -> str:
        rows = "\n".join(f"{name}: {rows}" for name, rows in contents.rows.items())
        changes = "\n".join(map(str, self.epochs[epoch]))
        texts = "\n".join(f"v{n}: {self.queries[n].text}" for n in self.below(number))
        return (
            f"SEED={self.seed} ONLY={number} ({self.queries[number].form}), epoch {epoch} of a view made in epoch "
            f"{self.starts[number]}\n{self.schema}\n{self.facts}\n{texts}\n{self.queries[number].text}\n{type(error).__name__}: {error}\n"
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
    forms = r.sample([*FORMS, *OPEN], len(FORMS) // 2)
    queries: list[Query] = []
    starts: list[int] = []
    readable = schema
    for number, form in enumerate(forms):
        over = r.random() < 0.3  # a view over views
        query = random_query(
            r, readable if over else schema, form=form, depth=r.choice((0, 1, 1, 2))
        )
        queries.append(query)
        below = [starts[n] for n in range(number) if f"v{n}" in relations_read(query.node)]
        start = 0 if r.random() < 0.6 else r.randrange(len(epochs))
        starts.append(max([start, *below]))
        if not query.open and len(set(query.node.names)) == len(query.columns):
            readable = readable.with_view(f"v{number}", query)
    large = random.Random(
        f"{seed} large"
    )  # so that a seed still means the same queries before these
    for form in LARGE:
        queries.append(random_query(large, schema, form=form))
        starts.append(0 if large.random() < 0.6 else large.randrange(len(epochs)))
    return Case(seed, schema, epochs, facts, queries, starts)


REGRESSIONS = (3795095901, 1192553398, 4007642090)
"""Seeds that failed once."""


@pytest.mark.parametrize("seed", draw_seeds("views", REGRESSIONS))
def test_views_hold_what_their_queries_give(seed: int) -> None:
    only = os.environ.get("ONLY")
    wrong = list(random_case(seed).failures(int(only) if only else None))
    assert not wrong, "\n\n".join(wrong)


UNSETTLED = (
    "sum(v) OVER (PARTITION BY g)",
    "avg(v) OVER (PARTITION BY g ORDER BY i)",
    "array_agg(v) OVER (PARTITION BY g ORDER BY i)",
    "row_number() OVER (PARTITION BY g ORDER BY i)",
    "lag(v) OVER (PARTITION BY g ORDER BY i)",
    "lead(v, 2) OVER (PARTITION BY g)",
    "ntile(2) OVER (PARTITION BY g ORDER BY i)",
    *(
        f"{name} OVER (PARTITION BY g{order})"
        for name in ("first_value(v)", "last_value(v)", "nth_value(v, 2)", "first_value(n) IGNORE NULLS", "last_value(n) IGNORE NULLS")
        for order in (
            "",
            " ORDER BY i",
            " ORDER BY i DESC RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            " ORDER BY i RANGE BETWEEN 1 PRECEDING AND CURRENT ROW",
            " ORDER BY i RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING",
            " ORDER BY i RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
            " ORDER BY i RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            " ORDER BY i ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
        )
    ),
)  # fmt: skip
"""Calls whose result depends on the order of rows that are equal in their ORDER BY."""


@pytest.mark.parametrize("call", UNSETTLED)
def test_windows_take_back_what_they_gave(call: str) -> None:
    """Sums of floats and values among ties may differ with the order of the rows, which is another in each epoch.

    A batch may choose another row among ties: it must be one of the values that the frame of the row has there.
    """
    r = random.Random(1)
    columns = (("g", t.INTEGER), ("i", t.INTEGER), ("v", t.DOUBLE), ("n", t.INTEGER))
    lake = Lake(seed=1)
    lake.create("s", [OutColumn(*column) for column in columns])
    query = f"SELECT g, i, v, n, {call} AS w FROM s"
    view = View(
        lake, bind(query, {"s": Relation("s", "s", columns)}), {"s": Known(None, False)}, "v"
    )
    rows: list[Row] = []
    for _ in range(6):
        came = [(r.randint(1, 2), r.randint(1, 3), r.choice((0.1, 0.2, 0.7)), r.choice((None, 1, 2))) for _ in range(6)]  # fmt: skip
        went = r.sample(rows, len(rows) // 3)
        rows = list((Counter(rows) - Counter(went) + Counter(came)).elements())
        lake.feed("s", [*((row, 1) for row in came), *((row, -1) for row in went)])
        view.advance()
        if call.startswith(("sum", "avg")):
            view.verify()
        given, held = (
            bag(lake.run(f"SELECT g, i, v, n FROM {lake.table(x)}").fetchall()) for x in "sv"
        )
        assert held == given
        if (
            "_value" in call and "ROWS" not in call
        ):  # the rows of such a frame depend on the order, too
            assert not unallowed(lake, call)


def unallowed(lake: Lake, call: str) -> list[Row]:
    """Rows of the view whose value is not one that the peers at that end of their frame have, as DuckDB sees it."""
    _, _, over = call.partition(" OVER ")
    arg = "n" if "(n)" in call else "v"
    where = " FILTER (WHERE n IS NOT NULL)" if "IGNORE NULLS" in call else ""
    listed = f"array_agg({arg}){where} OVER {over}"
    frame = f"SELECT g, i, v, n, list_distinct({listed}) AS l, bool_or({arg} IS NULL) OVER {over} AS b, count(*) OVER {over} AS c FROM {lake.table('s')}"
    view = f"SELECT g, i, v, n, w FROM {lake.table('v')}"
    test = "list_contains(l, w) OR (w IS NULL AND (b OR c < 2 OR len(l) = 0 OR l IS NULL))"
    found = f"FROM ({view}) AS x ANTI JOIN ({frame}) AS f ON x.g = f.g AND x.i = f.i AND x.v = f.v AND x.n IS NOT DISTINCT FROM f.n AND ({test})"
    return lake.run(found).fetchall()
