"""Binding in one line, for the tests of this folder."""

from __future__ import annotations

from icestream import types as t
from icestream.functions import Expr, Scope, bind, render
from icestream.sql.parser import parse
from icestream.sql.statements import Select

SCOPE = Scope.join(
    (
        Scope.of(
            {
                "b": t.BOOLEAN, "i2": t.SMALLINT, "i": t.INTEGER, "l": t.BIGINT, "n": t.NUMERIC,
                "price": t.numeric(10, 2), "wide": t.numeric(38, 18), "r": t.REAL, "d": t.DOUBLE, "s": t.VARCHAR,
                "y": t.BYTEA, "day": t.DATE, "tm": t.TIME, "ts": t.TIMESTAMP, "tz": t.TIMESTAMPTZ,
                "span": t.INTERVAL, "j": t.JSONB, "ia": t.array(t.INTEGER), "sa": t.array(t.VARCHAR),
                "st": t.struct(("a", t.INTEGER), ("B", t.VARCHAR)), "m": t.map_of(t.VARCHAR, t.INTEGER),
                "Mixed Case": t.INTEGER, "id": t.BIGINT,
            },
            "t",
        ),
        Scope.of({"id": t.BIGINT, "other": t.VARCHAR}, "u"),
    )
)  # fmt: skip


def bound(sql: str, scope: Scope = SCOPE) -> Expr:
    (statement,) = parse(f"SELECT {sql}", "q.sql")
    assert isinstance(statement, Select)
    return bind(statement.query.tree.expressions[0], scope, statement.query.place_of)


def rendered(sql: str, scope: Scope = SCOPE) -> str:
    return render(bound(sql, scope))


def type_of(sql: str) -> str:
    return str(bound(sql).type)
