"""Datagen without a JVM: where rows begin, how many there are, and when."""

from __future__ import annotations

from typing import Any, cast

import pytest

from icestream import types as t
from icestream.connectors.base import Column, Context
from icestream.connectors.datagen import BASE, SOURCE, DatagenSource
from icestream.connectors.datagen_fields import Generator
from icestream.errors import Place, SqlError
from icestream.sql.options import Settings, check
from icestream.sql.statements import Option

HERE = Place("x.sql", 1, 1)
COLUMNS = (Column("a", t.INTEGER), Column("at", t.TIMESTAMPTZ))


def settings(**given: str) -> Settings:
    options = {k: Option(k, v, HERE, HERE) for k, v in given.items()}
    return check(options, SOURCE.options, what="source s", env={})


def source(**given: str) -> DatagenSource:
    nothing = cast(Any, None)
    return DatagenSource(Context(nothing, nothing, "s#1", "s", settings(**given), COLUMNS))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("icestream.connectors.datagen.time.monotonic", lambda: now[0])
    return now


def test_every_reader_begins_at_the_same_place() -> None:
    assert source().start() == source().start() == {"rows": 0}


def test_rows_come_at_the_rate_and_a_second_of_them_at_once(clock: list[float]) -> None:
    made = source(**{"datagen.rows.per.second": "20"})
    assert made.latest(made.start()) == {"rows": 20}
    clock[0] += 1.5
    assert made.latest({"rows": 20}) == {"rows": 50}
    assert source(**{"datagen.rows.per.second": "20"}).latest({"rows": 50}) == {"rows": 70}


def test_a_slow_source_has_a_row_at_once(clock: list[float]) -> None:
    assert source(**{"datagen.rows.per.second": "0.01"}).latest({"rows": 0}) == {"rows": 1}


def test_a_source_with_an_end_stops_there(clock: list[float]) -> None:
    made = source(rows="35", **{"datagen.rows.per.second": "20"})
    assert made.latest({"rows": 0}) == {"rows": 20}
    clock[0] += 60
    assert made.latest({"rows": 20}) == {"rows": 35}
    assert source(rows="35").latest({"rows": 0}) == {"rows": 35}


def test_offsets_of_older_homes_keep_their_base() -> None:
    assert source(rows="35").latest({"rows": 3, "base": 7}) == {"rows": 35, "base": 7}


def test_the_time_of_the_first_row() -> None:
    assert f"{BASE}L" in Generator(settings(), COLUMNS, 1.0).expression("at", BASE)
    for text in ("1970-01-01T00:00:01Z", "1970-01-01 01:00:01+01:00", "1970-01-01T00:00:01"):
        given = settings(**{"fields.at.basetime": text})
        assert "1000000L" in Generator(given, COLUMNS, 1.0).expression("at", BASE)
    with pytest.raises(SqlError, match=r"fields\.at\.basetime accepts a time"):
        Generator(settings(**{"fields.at.basetime": "noon"}), COLUMNS, 1.0)
