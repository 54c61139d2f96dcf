"""EXPLAIN prints the rules that run: the names, and everything that the executor asks for.

`tests.maintained` compares every epoch of every random view with EXPLAIN; here are listed views, one or more for each rule,
and the executor of the engine itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from icestream import types as t
from icestream.plan.derivation import INITIAL, RULES, Derivation
from icestream.plan.explain_stages import explain_stages
from icestream.plan.maintain import Rules, State
from icestream.plan.query import Relation
from icestream.plan.split import closed, stages
from icestream.plan.stages import EVERYTHING_MOVES, Known, Rows, Stage
from icestream.plan.watermarks import closing
from icestream.runtime.temp_views import TempViews
from icestream.runtime.views import Computation
from icestream.types import quote
from tests.explained import ExplainedStage, Reading
from tests.unit.plan.tables import bind

COLUMNS = (("k", t.INTEGER), ("g", t.INTEGER), ("n", t.INTEGER), ("ts", t.TIMESTAMP))
RELATIONS = {name: Relation(name, name, COLUMNS) for name in ("changing", "growing", "fed", "theirs")}  # fmt: skip
FACTS = {
    "changing": Known(("k",), grows=False),
    "growing": Known(),
    "fed": Known(stored=False),
    "theirs": Known(stored=False, foreign=True),
}
CLOSE = "EMIT ON WINDOW CLOSE"

VIEWS = {
    "SELECT k FROM changing WHERE n > 1": [
        "linear",
        "linear",
        "delta: reads changing@delta",
    ],
    "SELECT k FROM growing UNION ALL SELECT 1": [
        "linear",
        "linear",
        "delta: reads growing@delta (new rows only)",
        "linear",
        "constant",
    ],
    "SELECT a.k, b.n FROM changing AS a JOIN growing AS b ON a.g = b.k": [
        "linear",
        "bilinear: reads growing@old by (k), changing@new by (g)",
        "delta: reads changing@delta",
        "delta: reads growing@delta (new rows only)",
    ],
    "SELECT a.k, b.n FROM changing AS a JOIN growing AS b ON a.g < b.k": [
        "linear",
        "bilinear: reads growing@old (scan), changing@new (scan)",
        "delta: reads changing@delta",
        "delta: reads growing@delta (new rows only)",
    ],
    "SELECT a.k, b.n FROM changing AS a LEFT JOIN growing AS b ON a.g = b.k": [
        "linear",
        "by row: reads growing@old by (k), changing@new by (g), growing@new by (k)",
        "delta: reads changing@delta",
        "delta: reads growing@delta (new rows only)",
    ],
    "SELECT a.k, b.n FROM growing AS a JOIN changing FOR SYSTEM_TIME AS OF PROCTIME() AS b ON a.g = b.k": [
        "linear",
        "temporal: reads changing@new by (k)",
        "delta: reads growing@delta (new rows only)",
    ],
    "SELECT a.k, b.n FROM growing AS a JOIN theirs FOR SYSTEM_TIME AS OF PROCTIME() AS b ON a.g = b.k": [
        "linear",
        "temporal: reads theirs@new (scan)",
        "delta: reads growing@delta (new rows only)",
    ],
    "SELECT k, rank() OVER (PARTITION BY g ORDER BY n) AS r FROM changing": [
        "linear",
        "by key: reads changing@new by (g), changing@old by (g)",
        "delta: reads changing@delta",
    ],
    "SELECT k, rank() OVER (ORDER BY n) AS r FROM changing": [
        "linear",
        "recomputed: reads changing@new (scan), changing@old (scan)",
    ],
    "SELECT k, rank() OVER (PARTITION BY g + 1 ORDER BY n) AS r FROM changing": [
        "linear",
        "recomputed: reads changing@new (scan), changing@old (scan)",
    ],
    "SELECT k, sum(n::double precision) OVER (PARTITION BY g) AS s FROM changing": [
        "stored partitions: reads changing@new by (g), v@old by (_icestream_state_column_g)",
        "delta: reads changing@delta",
    ],
    "SELECT k, sum(n::double precision) OVER () AS s FROM changing": [
        "stored partitions: reads changing@new (scan), v@old (scan)",
    ],
    "SELECT k FROM changing WHERE ts < now()": [
        "linear",
        "clock: reads changing@old (scan)",
        "delta: reads changing@delta",
    ],
    "SELECT g, count(*) AS c FROM changing GROUP BY g": [
        "merged groups: merges count; reads v@old by (g)",
        "delta: reads changing@delta",
    ],
    "SELECT g, max(n) AS m FROM changing GROUP BY g": [
        "merged groups: merges max, _icestream_rows; a group is read again if max may lose its value; "
        "reads v@old by (g), changing@new by (g)",
        "delta: reads changing@delta",
    ],
    "SELECT g, max(n) AS m FROM growing GROUP BY g": [
        "merged groups: merges max; reads v@old by (g)",
        "delta: reads growing@delta (new rows only)",
    ],
    "SELECT g, array_agg(n) AS a FROM changing GROUP BY g": [
        "merged groups: groups that change are read again for array_agg; reads v@old by (g), changing@new by (g)",
        "delta: reads changing@delta",
    ],
    "SELECT DISTINCT g FROM growing": [
        "merged groups: stored groups stay as they are; reads v@old by (g)",
        "delta: reads growing@delta (new rows only)",
    ],
    "SELECT DISTINCT ON (g) g, k FROM growing ORDER BY g, n": [
        "top-n: reads v@old by (g)",
        "delta: reads growing@delta (new rows only)",
    ],
    "SELECT g, max(c) AS m FROM (SELECT ts, g, count(*) AS c FROM fed GROUP BY ts, g) AS x GROUP BY g, ts": None,
    f"SELECT ts, g, count(*) AS c FROM fed GROUP BY ts, g {CLOSE}": [
        "trim: rows are deleted once ts < the watermark (_icestream_watermark); reads v/0@old (scan)",
        "merged groups: merges count; reads v/0@old by (ts, g)",
        "delta: reads fed@delta (new rows only)",
        "window close: rows appear once ts < the watermark (_icestream_watermark); reads v/0@new (scan)",
    ],
    f"SELECT ts, max(c) AS m FROM (SELECT ts, g, count(*) AS c FROM fed GROUP BY ts, g) AS x GROUP BY ts {CLOSE}": [
        "trim: rows are deleted once ts < the watermark (_icestream_watermark); reads v/0/1@old (scan)",
        "merged groups: merges count; reads v/0/1@old by (ts, g)",
        "delta: reads fed@delta (new rows only)",
        "trim: rows are deleted once ts < the watermark (_icestream_watermark); reads v/0@old (scan)",
        "merged groups: merges max, _icestream_rows; a group is read again if max may lose its value; "
        "reads v/0@old by (ts), v/0/1@new by (ts)",
        "linear",
        "delta: without trim deletes; reads v/0/1@delta",
        "window close: rows appear once ts < the watermark (_icestream_watermark); reads v/0@new (scan)",
    ],
}  # fmt: skip


def stages_of(sql: str) -> tuple[Stage, ...]:
    node = bind(sql.removesuffix(CLOSE), RELATIONS)
    if not sql.endswith(CLOSE):
        return stages(node, "v", FACTS)
    final = closing(node, {"fed": "ts"})
    assert final is not None
    return closed(node, "v", FACTS, final)


def rules_of(sql: str) -> list[str]:
    """The rules that EXPLAIN prints for a view, without the nodes."""
    rules = [rule for stage in stages_of(sql) for rule in ExplainedStage(stage).rules]
    return [f"{rule.rule}: {rule.said}" if rule.said else rule.rule for rule in rules]


@pytest.mark.parametrize("sql", [sql for sql, rules in VIEWS.items() if rules])
def test_explain_names_the_rules_and_what_they_read(sql: str) -> None:
    assert rules_of(sql) == VIEWS[sql]


def test_every_rule_is_in_the_list() -> None:
    """The initial rule runs once, before any other; EXPLAIN is about the epochs after it."""
    printed = {
        rule.rule for sql in VIEWS for s in stages_of(sql) for rule in ExplainedStage(s).rules
    }
    assert printed == {rule.name for rule in RULES if rule != INITIAL}


class Frame:
    """Rows that nobody reads."""

    def createOrReplaceTempView(self, name: str) -> None:
        pass


class Session:
    """Takes queries and runs none."""

    def sql(self, text: str) -> Frame:
        return Frame()


@pytest.mark.parametrize("sql", VIEWS)
def test_the_executor_asks_for_what_explain_prints(sql: str) -> None:
    for stage in stages_of(sql):
        asked: set[Reading] = set()

        def face(relation: str, which: str, times: int, asked: set[Reading] = asked) -> Any:
            asked.add((relation, which, ""))
            return Frame()

        def find(
            relation: str,
            which: str,
            on: Sequence[str],
            columns: Sequence[str],
            keys: Any,
            asked: set[Reading] = asked,
        ) -> Any:
            asked.add((relation, which, ", ".join(map(quote, on))))
            return Frame()

        session: Any = Session()
        states = {r: State(r not in stage.looked_up) for r in stage.reads}
        states[stage.relation] = State(True)
        computation = Computation(session, face, find, "now()", TempViews(session), None, False)
        computation.changes(stage, states, first=False, times=EVERYTHING_MOVES)
        assert asked == ExplainedStage(stage).reads


class HidingRows(Rows):
    """A stage whose rule does not say what it reads."""

    def _derive(self, rules: Rules) -> Derivation:
        found = super()._derive(rules)
        join = replace(found.inputs[0], content=())
        return replace(found, inputs=(join,))


def test_a_read_that_is_not_printed_is_noticed() -> None:
    (stage,) = stages_of("SELECT a.k, b.n FROM changing AS a JOIN growing AS b ON a.g = b.k")
    hiding = HidingRows(stage.relation, stage.plan, stage.facts)
    with pytest.raises(AssertionError, match="EXPLAIN is wrong on"):
        ExplainedStage(hiding)


def test_tables_have_their_own_names() -> None:
    made = stages_of("SELECT g, count(*) AS c FROM growing GROUP BY g HAVING count(*) > 1")
    lines = list(explain_stages(made, {"v/1": "lake.icestream.v_1_1", "v": "lake.public.v"}))
    assert lines == [
        "Stage 1 → lake.icestream.v_1_1: key (g)",
        "  Project g, count",
        "    Aggregate by g: count(*) AS count    -- merged groups: merges count; reads lake.icestream.v_1_1@old by (g)",
        "      Scan growing (g)    -- delta: reads growing@delta (new rows only)",
        "Stage 2 → lake.public.v: key (g)",
        "  Project g, count AS c    -- linear",
        "    Filter count > 1    -- linear",
        "      Scan lake.icestream.v_1_1 (g, count)    -- delta: reads lake.icestream.v_1_1@delta",
    ]
