"""Tests and benchmarks open DuckDB in one way: with the optimizers off that give wrong rows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from icestream.dev.duck import open_duckdb
from icestream.functions.duckdb import SETTINGS

ROOT = Path(__file__).parents[2]
FILES = sorted(p for part in ("tests", "benchmarks") for p in (ROOT / part).rglob("*.py"))
OPENING = ("connect", "default_connection", "execute", "from_query", "query", "sql")
"""Functions of the module that open a database, or use the one that the module has."""


def opened(text: str) -> list[int]:
    """The lines that open DuckDB past `open_duckdb`."""
    tree = ast.parse(text)
    names = {
        a.asname or a.name
        for n in ast.walk(tree)
        if isinstance(n, ast.Import)
        for a in n.names
        if a.name == "duckdb"
    }
    found = []
    for n in ast.walk(tree):
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name):
            if n.value.id in names and n.attr in OPENING:
                found.append(n.lineno)
        elif isinstance(n, ast.ImportFrom) and n.module == "duckdb":
            found += [n.lineno for a in n.names if a.name in OPENING]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_duckdb_is_opened_with_its_settings(path: Path) -> None:
    assert opened(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "import duckdb\nduckdb.connect()",
        "def f():\n    import duckdb as d\n    d.sql('SELECT 1')",
        "from duckdb import connect",
        "import duckdb\nopen = duckdb.connect",
    ],
)
def test_what_is_found(text: str) -> None:
    assert opened(text)
    assert not opened("import duckdb\nerror = duckdb.Error")


def test_the_settings_hold() -> None:
    with open_duckdb(threads=1) as made:
        found = made.execute("SELECT current_setting('disabled_optimizers')").fetchone()
    assert found is not None
    assert set(found[0].split(",")) == set(SETTINGS["disabled_optimizers"].split(","))
