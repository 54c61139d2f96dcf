"""Views with temporal joins: each row of the left is joined once, with the right as it is at the end of its epoch.

The oracle keeps what DuckDB gave for the new rows of every epoch; queries above the join read that. SEED repeats a run,
N says how many histories there are (`make fuzz`).
"""

from __future__ import annotations

import random

import duckdb
import pytest

from icestream import types as t
from icestream.plan.logical import OutColumn
from icestream.plan.maintain import WEIGHT
from icestream.plan.query import Relation
from icestream.plan.stages import Known
from tests.duck import bag, quoted
from tests.maintained import Lake, Row, View
from tests.seeds import draw_seeds
from tests.unit.plan.tables import bind

LEFT = (("k", t.INTEGER), ("g", t.INTEGER), ("v", t.INTEGER))
RIGHT = (("id", t.INTEGER), ("g", t.INTEGER), ("w", t.INTEGER))
RELATIONS = {"s": Relation("s", "s", LEFT), "r": Relation("r", "r", RIGHT)}
EPOCHS = 6
FOUND = (887648510, 887648517)
"""Seeds that failed: a temporal join below another join that reads the same relation was computed again."""
NOW = "FOR SYSTEM_TIME AS OF PROCTIME() "

JOINS = (
    f"SELECT s.k AS k, s.v AS v, r.w AS w FROM s JOIN r {NOW}AS r ON s.g = r.id",
    f"SELECT s.k AS k, s.v AS v, r.w AS w FROM s LEFT JOIN r {NOW}AS r ON s.g = r.id AND r.w > 1",
    f"SELECT s.k AS k, s.v AS v, r.w AS w FROM s LEFT JOIN r {NOW}AS r ON s.g = r.g WHERE s.v IS NOT NULL",
    f"SELECT s.k AS k, s.v AS v, r.w AS w FROM (SELECT * FROM s WHERE v > 0) AS s JOIN r {NOW}AS r ON s.g = r.g AND s.v < r.w",
    f"SELECT s.k AS k, a.w AS v, b.w AS w FROM s LEFT JOIN r {NOW}AS a ON s.g = a.id LEFT JOIN r {NOW}AS b ON s.v = b.id",
)  # fmt: skip
ABOVE = (
    "{0}",
    "SELECT w, count(*) AS c, max(v) AS m FROM ({0}) AS x GROUP BY w",
    "SELECT v, min(w) AS m FROM ({0}) AS x GROUP BY v HAVING count(*) > 1",
    "SELECT DISTINCT w FROM ({0}) AS x",
    "SELECT k, n FROM (SELECT k, row_number() OVER (PARTITION BY w ORDER BY v, k) AS n FROM ({0}) AS x) AS y WHERE n <= 2",
    "SELECT x.k AS k, u.w AS w FROM ({0}) AS x JOIN r AS u ON x.v = u.id",
)


class Right:
    """A table with a key, whose rows change and go."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.rows: dict[int, Row] = {}

    def epoch(self) -> list[tuple[Row, int]]:
        changes: list[tuple[Row, int]] = []
        for id in self.r.sample(range(5), self.r.randint(0, 3)):
            if id in self.rows:
                changes.append((self.rows.pop(id), -1))
            if self.r.random() < 0.7:
                self.rows[id] = (id, self.r.choice((None, 1, 2)), self.r.choice((None, 1, 2, 3)))
                changes.append((self.rows[id], 1))
        return changes


def failures(seed: int) -> list[str]:
    """Each view that went wrong; it is left alone then."""
    r = random.Random(seed)
    lake, right = Lake(seed), Right(r)
    for name, columns in (("s", LEFT), ("r", RIGHT)):
        lake.create(name, [OutColumn(*column) for column in columns])
    facts = {"s": Known(None, True, r.random() < 0.5), "r": Known(("id",), False)}
    texts = [(join, r.choice(ABOVE)) for join in JOINS]
    views: dict[int, View] = {}
    wrong: dict[int, str] = {}
    for number in range(len(texts)):
        lake.run(f"CREATE TABLE kept_rows{number} (k INTEGER, v INTEGER, w INTEGER)")
    starts = [r.choice((0, 0, r.randrange(EPOCHS))) for _ in texts]
    for epoch in range(EPOCHS):
        came = [(r.randint(1, 9), r.choice((None, 0, 1, 2)), r.choice((None, 0, 1, 2))) for _ in range(r.randint(0, 4))]  # fmt: skip
        lake.feed("s", [(row, 1) for row in came])
        lake.feed("r", right.epoch())
        for number, (join, above) in enumerate(texts):
            if epoch < starts[number] or number in wrong:
                continue
            try:
                if number not in views:
                    node = bind(above.format(join), RELATIONS)
                    views[number] = View(lake, node, facts, f"v{number}")
                first = epoch == starts[number]
                news = lake.table("s") if first else f"(SELECT * EXCLUDE ({quoted(WEIGHT)}) FROM {lake.table('s', 'delta')})"  # fmt: skip
                lake.run(f"CREATE OR REPLACE VIEW s AS FROM {news}")
                lake.run(f"CREATE OR REPLACE VIEW r AS FROM {lake.table('r')}")
                lake.run(f"INSERT INTO kept_rows{number} {join.replace(NOW, '')}")
                views[number].advance()
                names = ", ".join(map(quoted, views[number].node.names))
                held = lake.run(f"SELECT {names} FROM {lake.table(f'v{number}')}").fetchall()
                kept = f"SELECT * FROM kept_rows{number}"
                expected = lake.run(above.format(kept)).fetchall()
                assert bag(held) == bag(expected), f"{bag(held)} is not {bag(expected)}"
            except (AssertionError, LookupError, duckdb.Error) as error:
                told = f"epoch {epoch} of a view made in epoch {starts[number]}, {facts}"
                wrong[number] = f"SEED={seed}: {above.format(join)}\n{told}\n{type(error).__name__}: {error}"  # fmt: skip
    return list(wrong.values())


@pytest.mark.parametrize("seed", draw_seeds("temporal views", FOUND))
def test_rows_are_joined_when_they_come(seed: int) -> None:
    wrong = failures(seed)
    assert not wrong, "\n\n".join(wrong)
