"""Kafka records so large that ten thousand of them fit neither into memory nor into one Arrow batch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine import MEMORY, duckdb_count, icestream

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCRIPT = """
CREATE TABLE landed (body BYTEA) INCLUDE offset AS place WITH (
  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'
) FORMAT PLAIN ENCODE BYTES;
"""
BODY = b"x" * 1_000_000


def records(count: int) -> Iterator[tuple[None, bytes]]:
    """Each of a megabyte."""
    for _ in range(count):
        yield None, BODY


@pytest.mark.timeout(900)
def test_records_of_a_megabyte_do_not_stop_a_stream(tmp_path, kafka, topic, produce) -> None:
    """All of them in one partition: without a limit in bytes they would be one batch of 3 GB."""
    name = topic()
    script = tmp_path / "pipeline.sql"
    script.write_text(SCRIPT.format(topic=name, bootstrap=kafka.bootstrap))
    home = tmp_path / "home"
    run = ("run", script, "--once", "--home", home, "--memory", MEMORY)
    total = 0
    for count in (3_000, 40):
        produce(name, records(count), **{"queue.buffering.max.messages": 200})  # fmt: skip
        total += count
        done = icestream(*run, timeout=400)
        assert done.returncode == 0, done.stderr
        assert duckdb_count(home, "public.landed") == total
    assert duckdb_count(home, "public.landed", "count(DISTINCT place)") == total
    assert duckdb_count(home, "public.landed", "min(octet_length(body))") == len(BODY)
