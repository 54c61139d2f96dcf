"""FOR SYSTEM_VERSION and FOR SYSTEM_TIME AS OF: what is read, when, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from icestream import types as t
from icestream.errors import SqlError
from icestream.plan.explain import explain_node
from icestream.plan.logical import Scan, walk
from icestream.plan.query import Relation
from icestream.plan.rewrite import all_exprs
from icestream.plan.spark import render
from tests.unit.plan.tables import RELATIONS, bind

STORED = {name: replace(found, versions=True) for name, found in RELATIONS.items()}
VIEW = Relation("v#9", "v", (("id", t.BIGINT),), bind("SELECT id FROM customers"))


@pytest.mark.parametrize(
    ("written", "type", "meant"),
    [
        ("FOR SYSTEM_VERSION AS OF 8234567890123456789", t.BIGINT, "8234567890123456789"),
        ("for system_version as of 7 AS c", t.BIGINT, "7"),
        ("FOR VERSION AS OF '7' c", t.BIGINT, "7"),
        ("FOR SYSTEM_TIME AS OF 1700000000", t.TIMESTAMPTZ, "to_timestamp(1700000000)"),
        ("FOR SYSTEM_TIME AS OF '2026-01-02 03:04:05+01' c", t.TIMESTAMPTZ, "'2026-01-02 02:04:05'"),
        ("FOR TIMESTAMP AS OF DATE '2026-01-02'", t.TIMESTAMPTZ, "'2026-01-02'"),
        ("FOR SYSTEM_TIME AS OF NOW() - '10' SECOND", t.TIMESTAMPTZ, "now() - INTERVAL '10 seconds'"),
        ("FOR SYSTEM_TIME AS OF now() - '1 hour' AS c", t.TIMESTAMPTZ, "now() - INTERVAL '1 hour'"),
        ("FOR SYSTEM_TIME AS OF now() - INTERVAL '2' DAY c", t.TIMESTAMPTZ, "now() - INTERVAL '2 days'"),
    ],
)  # fmt: skip
def test_a_version_or_a_moment(written: str, type: t.Type, meant: str) -> None:
    plan = bind(f"SELECT id FROM customers {written}", STORED)
    assert explain_node(plan) == f"Scan customers as of {meant} (id)"
    (scan,) = (n for n in walk(plan) if isinstance(n, Scan))
    assert scan.at is not None
    assert (scan.at.relation, scan.at.expr.type) == ("customers#2", type)
    assert scan.at.expr in list(all_exprs(plan))  # so that the types of its parameters are found


def test_each_version_is_a_relation_of_its_own() -> None:
    plan = bind(
        """SELECT a.id FROM customers a JOIN customers FOR SYSTEM_VERSION AS OF 1 b ON a.id = b.id
        JOIN customers FOR SYSTEM_VERSION AS OF 2 c ON a.id = c.id
        JOIN customers FOR SYSTEM_VERSION AS OF 1 d ON a.id = d.id""",
        STORED,
    )
    read = [n.relation for n in walk(plan) if isinstance(n, Scan)]
    assert read == ["customers#2", "customers#2@1", "customers#2@2", "customers#2@1"]
    text = render(plan, {key: f"<{key}>" for key in read})
    assert [text.count(f"<{key}>") for key in read[:3]] == [1, 2, 1]


WRONG = [
    ("SELECT 1 FROM »v FOR SYSTEM_VERSION AS OF 1", '"v" has no versions to be read'),
    ("WITH x AS (SELECT 1) SELECT 1 FROM »x FOR SYSTEM_TIME AS OF 1", '"x" has no versions'),
    ("SELECT 1 FROM customers FOR SYSTEM_VERSION AS OF »1.5", "takes the id of a snapshot"),
    ("SELECT 1 FROM customers FOR SYSTEM_TIME AS OF »id", 'column "id" does not exist'),
    ("SELECT 1 FROM customers FOR SYSTEM_TIME AS OF »max(1)", "aggregate functions are not allowed"),
    ("»SELECT 1 FROM customers FOR SYSTEM_TIME AS OF true", "is of type timestamp with time zone"),
    ("SELECT 1 FROM »customers FOR SYSTEM_TIME AS OF", "a moment is missing"),
    ("SELECT 1 FROM »customers FOR SYSTEM_TIME BETWEEN 1 AND 2", "versions other than AS OF one"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "message"), WRONG)
def test_refused(marked: str, message: str) -> None:
    before, _, after = marked.partition("»")
    with pytest.raises(SqlError) as caught:
        bind(before + after, {**STORED, "v": VIEW})
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.column == len(before) + 1, str(caught.value)
