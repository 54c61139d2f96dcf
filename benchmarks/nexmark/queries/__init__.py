"""The queries of Nexmark as files: qN.sql for this engine, qN.flink.sql, and qN.duckdb.sql as the oracle.

A query that DuckDB takes as it is needs no text of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent
ALL = [f"q{number}" for number in range(23)]
BY_FLINK = [name for name in ALL if (FOLDER / f"{name}.flink.sql").exists()]

_SOURCE = re.compile(r"^CREATE SOURCE (\w+)", re.MULTILINE)
_VIEW = re.compile(r"^CREATE MATERIALIZED VIEW \w+ AS\n(.*);\n", re.MULTILINE | re.DOTALL)


def script(name: str) -> Path:
    """The script that this engine runs."""
    return FOLDER / f"{name}.sql"


def reads(name: str) -> list[str]:
    """The kinds of events that the query reads."""
    return _SOURCE.findall(script(name).read_text())


def title(name: str) -> str:
    """What the query asks, from the first line of its script."""
    return script(name).read_text().splitlines()[0].removeprefix("-- ")


def oracle(name: str) -> tuple[str, str | None]:
    """DuckDB's query over the events, and one over the `result` where not all of that is determined."""
    own = FOLDER / f"{name}.duckdb.sql"
    if own.exists():
        expected, *rest = own.read_text().rstrip().removesuffix(";").split(";\n")
        return expected, rest[0] if rest else None
    found = _VIEW.search(script(name).read_text())
    assert found is not None, f"{name}.sql has no materialized view"
    return found.group(1), None
