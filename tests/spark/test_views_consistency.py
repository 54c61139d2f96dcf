"""Money that only moves: whoever looks, whenever, sees views of one epoch."""

from __future__ import annotations

import random
import threading
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from tests.duck import plain
from tests.feeds import Event, Feed, Row
from tests.keyed import seeded
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

ACCOUNTS = 6
ROUNDS = 5
VIEWS = """
CREATE MATERIALIZED VIEW credits AS SELECT target AS account, sum(amount) AS amount FROM transfers GROUP BY target;
CREATE MATERIALIZED VIEW debits AS SELECT source AS account, sum(amount) AS amount FROM transfers GROUP BY source;
CREATE MATERIALIZED VIEW balances AS
  SELECT coalesce(c.account, d.account) AS account, coalesce(c.amount, 0) - coalesce(d.amount, 0) AS amount
  FROM credits c FULL JOIN debits d ON c.account = d.account;
CREATE MATERIALIZED VIEW total AS SELECT coalesce(sum(amount), 0) AS amount FROM balances;
CREATE MATERIALIZED VIEW moved AS SELECT coalesce(sum(amount), 0) AS amount, count(*) AS n FROM transfers;
"""
CHECKS = {
    "the sums of both sides, and of what stands on them": """
      SELECT (SELECT sum(amount) FROM credits) - (SELECT sum(amount) FROM debits),
        (SELECT sum(amount) FROM balances), (SELECT amount FROM total),
        (SELECT sum(amount) FROM credits) - (SELECT amount FROM moved)""",
    "one list of all": """
      SELECT coalesce(sum(amount), 0) FROM (SELECT amount FROM credits UNION ALL SELECT -amount FROM debits
        UNION ALL SELECT -amount FROM balances UNION ALL SELECT amount FROM total) x""",
    "joined": """
      SELECT count(*) FROM balances b LEFT JOIN credits c ON c.account = b.account
      LEFT JOIN debits d ON d.account = b.account
      WHERE b.amount <> coalesce(c.amount, 0) - coalesce(d.amount, 0)""",
}


class Bank:
    """Transfers that are made, corrected and cancelled."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.transfers: dict[int, Row] = {}
        self.made = 0

    def some(self) -> list[Event]:
        events: list[Event] = []
        for _ in range(self.r.randrange(1, 12)):
            before = self.r.choice([None, None, *self.transfers.values()])
            if before is not None and self.r.random() < 0.4:
                del self.transfers[before[0]]
                events.append((before, None))
                continue
            if before is None:
                self.made += 1
            number = self.made if before is None else before[0]
            source, target = (self.r.randrange(ACCOUNTS) for _ in range(2))
            after = (number, source, target, Decimal(self.r.randrange(1, 10_000)) / 100)
            self.transfers[number] = after
            events.append((before, after))
        return events


@pytest.mark.timeout(300)
def test_no_reader_sees_money_come_or_go(spark: SparkSession, tmp_path: Path) -> None:
    bank = Bank(seeded())
    feed = Feed(tmp_path, "transfers", ("id", "source", "target", "amount"), keyed=True)
    home = Home.at(tmp_path / "home")
    stop, epochs, failed = threading.Event(), [0], list[BaseException]()
    with Engine(
        home, EngineSettings(epoch_interval=0.05), application=spark, allow_paths=["/"]
    ) as engine:
        engine.execute(
            "CREATE TABLE transfers (id INT PRIMARY KEY, source INT, target INT, amount NUMERIC(12, 2)) "
            f"{feed.clause};{VIEWS}"
        )
        feed.write(bank.some())
        engine.run(threading.Event(), once=True)

        def run() -> None:
            try:
                engine.run(stop, report=lambda report: epochs.append(report.epoch))
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        looks = 0
        with Engine(home, EngineSettings(), application=spark, allow_paths=["/"]) as reader:
            try:
                while epochs[-1] < ROUNDS and thread.is_alive():
                    feed.write(bank.some())
                    for what, query in CHECKS.items():
                        (found,) = reader.execute(query)[0].rows or [()]
                        wrong = [v for v in map(plain, found) if v not in ("0", None)]
                        assert not wrong, f"{what}: {found} after epoch {epochs[-1]}"
                        looks += 1
            finally:
                stop.set()
                thread.join()
            assert not failed, failed
            assert looks >= len(CHECKS)
            engine.run(threading.Event(), once=True)
            (moved,) = reader.execute("SELECT amount, n FROM moved")[0].rows or [()]
        expected = (sum(t[3] for t in bank.transfers.values()), len(bank.transfers))
        assert tuple(map(plain, moved)) == tuple(map(plain, expected))
