"""The queries of queries.sql, whose rows tests compare with PostgreSQL's: the tables they read, and what binds them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from icestream import types as t
from icestream.errors import SqlError
from icestream.plan.logical import Node
from icestream.plan.query import Relation, bind_query
from icestream.sql import parse
from icestream.sql.statements import Name, Select
from icestream.types import Type

Columns = dict[str, Type]
TABLES: dict[str, tuple[Columns, str]] = {
    "orders": (
        {
            "id": t.INTEGER,
            "customer": t.INTEGER,
            "item": t.VARCHAR,
            "price": t.NUMERIC,
            "quantity": t.INTEGER,
            "at": t.TIMESTAMP,
            "tags": t.array(t.INTEGER),
        },
        """(1, 1, 'tea', 4.50, 2, '2024-01-01 10:00:00', '{1,2}'),
           (2, 1, 'tea', 12.00, 1, '2024-01-01 10:04:59', '{2}'),
           (3, 2, 'milk', 2.00, 3, '2024-01-01 10:05:00', '{}'),
           (4, 2, NULL, NULL, NULL, NULL, NULL),
           (5, NULL, 'tea', 7.25, 1, '2024-01-02 23:59:59.5', '{3,NULL}'),
           (6, 4, 'milk', 2.00, 3, '2024-01-02 00:00:00', '{1,1}'),
           (7, 1, 'milk', 12.00, 2, '2024-01-03 12:30:00', '{4,5,6}'),
           (7, 1, 'milk', 12.00, 2, '2024-01-03 12:30:00', '{4,5,6}')""",
    ),
    "customers": (
        {"id": t.INTEGER, "name": t.VARCHAR, "city": t.VARCHAR, "since": t.DATE},
        """(1, 'ada', 'Bern', '2020-01-01'), (2, 'bob', 'Basel', '2021-06-30'),
           (3, 'cy', NULL, NULL), (3, 'cy', 'Bern', '2022-02-02')""",
    ),
    "numbers": (
        {"n": t.INTEGER, "x": t.DOUBLE, "flag": t.BOOLEAN},
        "(1, 0.5, TRUE), (2, NULL, FALSE), (3, 'NaN', NULL), (NULL, -1.25, TRUE)",
    ),
    "extremes": (
        {"k": t.INTEGER, "x": t.DOUBLE, "y": t.REAL, "i": t.INTEGER, "b": t.BIGINT},
        """(1, '0', '-0', 0, 0), (2, '-0', '0', -2147483648, -9223372036854775808),
           (3, 'NaN', 'NaN', 2147483647, 9223372036854775807), (4, 'Infinity', '-Infinity', 1, 1),
           (5, '-Infinity', 'Infinity', -1, -1), (6, NULL, NULL, NULL, NULL),
           (7, '1.7976931348623157e308', '65536', 2, 2), (8, '5e-324', '0.5', 3, 3)""",
    ),
    "empty_extremes": (
        {"k": t.INTEGER, "x": t.DOUBLE, "y": t.REAL, "i": t.INTEGER, "b": t.BIGINT},
        "",
    ),
    "nothing": ({"a": t.INTEGER, "b": t.VARCHAR}, ""),
}


def queries() -> Iterator[tuple[str, str]]:
    """Each query of queries.sql with a name: its section and number."""
    section, number = "", 0
    for paragraph in (Path(__file__).parent / "queries.sql").read_text().split("\n\n"):
        lines = paragraph.strip().splitlines()
        comments = [line for line in lines if line.startswith("--")]
        sql = "\n".join(line for line in lines if not line.startswith("--"))
        if comments:
            section, number = comments[-1].removeprefix("-- ").replace(" ", "-"), 0
        if sql:
            number += 1
            yield f"{section}-{number}", sql


def relation(name: Name) -> Relation:
    if name.name not in TABLES:
        raise SqlError(f'relation "{name}" does not exist', place=name.place)
    return Relation(f"{name.name}#1", name.name, tuple(TABLES[name.name][0].items()))


def plan(sql: str) -> Node:
    (statement,) = parse(sql)
    assert isinstance(statement, Select)
    return bind_query(statement.query, relation)
