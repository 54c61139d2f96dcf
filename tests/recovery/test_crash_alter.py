"""SIGKILL between the steps of a rename, and again while the next start makes up for it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.engine import MEMORY, column, icestream, lake

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCRIPT = """
CREATE TABLE orders (id INT PRIMARY KEY);
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n, sum(orders.id) AS s FROM orders;
INSERT INTO orders VALUES (1), (2);
FLUSH;
ALTER TABLE orders RENAME TO purchases;
"""


def sql(home: Path, text: str, fault: str | None = None) -> str:
    env = {"ICESTREAM_FAULT": fault} if fault else None
    done = icestream("sql", text, "--home", home, "--memory", MEMORY, "--format", "csv", env=env)
    assert done.returncode == (-signal.SIGKILL if fault else 0), (fault, done.stderr)
    return done.stdout


def test_a_rename_is_completed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    sql(home, SCRIPT, "alter-stored")
    assert "orders" in {name for _, name in lake(home).list_tables("public")}
    sql(home, "FLUSH", "table-renamed")
    answer = sql(home, "INSERT INTO purchases VALUES (3); FLUSH; SELECT * FROM totals")
    assert answer.splitlines()[-1] == "3,6"
    assert {name for _, name in lake(home).list_tables("public")} == {"purchases", "totals"}
    assert sorted(column(home, "public.purchases", "id")) == [1, 2, 3]  # type: ignore[type-var]
