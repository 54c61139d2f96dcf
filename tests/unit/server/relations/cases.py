"""The queries of clients, from the .sql files beside this module.

`-- client: what` starts a query, and a * after it says that its rows must be those of PostgreSQL; the names and types
of its columns always must. `-- parameters:` has the values of $1, $2, …, as JSON. What PostgreSQL answered is in
golden.json, which `tests/services/test_relations.py` checks, and writes when it is run as a program.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"

_CASE = re.compile(
    r"^-- (\w+: [^\n]*?)( \*)?\n(?:-- parameters: ([^\n]*)\n)?(.*?)(?=^-- \w+: |\Z)", re.M | re.S
)


@dataclass(frozen=True)
class Case:
    """One query of a client."""

    name: str
    sql: str
    parameters: tuple[str | None, ...] = ()
    same_rows: bool = False


def cases() -> list[Case]:
    return [
        Case(name, sql.strip(), tuple(json.loads(parameters or "[]")), bool(star))
        for file in ("psql.sql", "drivers.sql", "tools.sql")
        for name, star, parameters, sql in _CASE.findall((HERE / file).read_text())
    ]


def in_order(rows: list[Any]) -> list[str]:
    """Rows in one order, whatever the query left open."""
    return sorted(json.dumps(row, default=str) for row in rows)


def golden() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())
    return found
