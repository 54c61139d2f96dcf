"""Kafka to Iceberg with a real broker, through the command line, counted by other readers than this engine."""

from __future__ import annotations

import json

import pytest

from tests.engine import MEMORY, column, duckdb_count, icestream, lake_table, status

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCRIPT = """
CREATE SOURCE events (
  id BIGINT NOT NULL,
  user_id VARCHAR,
  price NUMERIC(20, 4),
  at TIMESTAMPTZ,
  tags VARCHAR[],
  place STRUCT<lat DOUBLE PRECISION, lon DOUBLE PRECISION>,
  weekday VARCHAR AS to_char(at, 'FMDay')
) INCLUDE offset AS kafka_offset WITH (
  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'
) FORMAT PLAIN ENCODE JSON;
CREATE SINK landed FROM events WITH (
  connector = 'iceberg', type = 'append-only', table.name = 'landed', create_table_if_not_exists = 'true'
);
"""


def event(number: int) -> str:
    return json.dumps(
        {
            "id": number,
            "user_id": f"user-{number % 977}",
            "price": "12345678901234.5678" if number % 2 else 0.25,
            "at": "2026-03-01T10:00:00.5+01:00" if number % 3 else 1772355600500,
            "tags": ["a", None, "ü"],
            "place": {"lat": 48.1, "lon": 11.5, "ignored": True},
            "extra": "x" * 60,
        }
    )


@pytest.mark.timeout(600)
def test_every_event_exactly_once_over_two_runs(tmp_path, kafka, topic, produce) -> None:
    name = topic(partitions=3)
    script = tmp_path / "pipeline.sql"
    script.write_text(SCRIPT.format(topic=name, bootstrap=kafka.bootstrap))
    home = tmp_path / "home"
    run = ("run", script, "--once", "--home", home, "--memory", MEMORY)

    produce(name, ((None, event(i)) for i in range(200_000)))
    done = icestream(*run)
    assert done.returncode == 0, done.stderr
    assert duckdb_count(home, "public.landed") == 200_000

    produce(name, ((None, event(i)) for i in range(200_000, 210_000)))
    done = icestream(*run)
    assert done.returncode == 0, done.stderr
    assert "is unchanged" in done.stderr

    assert sorted(column(home, "public.landed", "id")) == list(range(210_000))
    assert duckdb_count(home, "public.landed", "count(DISTINCT id)") == 210_000
    assert duckdb_count(home, "public.landed", "sum(price)::varchar") == str(
        duckdb_count(home, "public.landed", "count(*) FILTER (WHERE id % 2 = 1) * 12345678901234.5678 + 105000 * 0.25")
    )  # fmt: skip
    row = lake_table(home, "public.landed").scan(row_filter="id = 7").to_arrow().to_pylist()[0]
    assert str(row["price"]) == "12345678901234.5678"
    assert row["at"].isoformat() == "2026-03-01T09:00:00.500000+00:00"
    assert row["weekday"] == "Sunday"
    assert row["tags"] == ["a", None, "ü"]
    assert row["place"] == {"lat": 48.1, "lon": 11.5}
    state = status(home)
    assert state["state"] == "stopped"
    assert state["sources"][0]["records"] == 210_000
    assert state["objects"][0]["rows"] == 210_000


@pytest.mark.timeout(600)
def test_poison_records_are_kept_apart_with_their_offsets(tmp_path, kafka, topic, produce) -> None:
    name = topic(partitions=1)
    script = tmp_path / "pipeline.sql"
    script.write_text(SCRIPT.format(topic=name, bootstrap=kafka.bootstrap))
    home = tmp_path / "home"
    big = json.dumps({"id": 10, "user_id": "x" * 2_000_000})
    records = {
        0: event(0),
        1: "{not json",
        2: event(2),
        3: json.dumps({"id": "three"}),  # a wrong type
        4: json.dumps({"user_id": "nobody"}),  # NULL for NOT NULL
        5: json.dumps({"id": 5, "place": [1, 2]}),  # a wrong type below the top
        6: event(6),
        7: b"\xff\xfe\xfd",  # not even text
        8: json.dumps({"id": 2**63}),  # out of range
        9: "null",
        10: big,  # 2 MB, and good
        11: big[:-1],  # 2 MB, and broken
        12: None,  # a tombstone where no key means anything
    }
    produce(name, ((None, v) for v in records.values()), **{"message.max.bytes": 5_000_000})
    done = icestream("run", script, "--once", "--home", home, "--memory", MEMORY)
    assert done.returncode == 0, done.stderr
    assert "dead letters" in done.stderr

    good = {0, 2, 6, 10}
    assert set(column(home, "public.landed", "kafka_offset")) == good
    letters = lake_table(home, "dead_letters.events").scan().to_arrow().to_pylist()
    assert {letter["offset"] for letter in letters} == set(records) - good
    by_offset = {letter["offset"]: letter for letter in letters}
    assert by_offset[3]["reason"] == "id: 'three' is not a valid bigint"
    assert by_offset[4]["reason"] == "column id is NULL but declared NOT NULL"
    assert by_offset[7]["payload"] == b"\xff\xfe\xfd"
    assert len(by_offset[11]["payload"]) == len(big) - 1
    assert all(letter["stream"] == name for letter in letters)
    assert status(home)["sources"][0]["dead_letters"] == len(letters)

    shown = icestream(
        "sql", "SELECT count(*) AS n FROM dead_letters.events WHERE payload IS NOT NULL",
        "--home", home, "--format", "json", "--memory", MEMORY,
    )  # fmt: skip
    assert json.loads(shown.stdout) == {"n": len(letters) - 1}, shown.stderr
