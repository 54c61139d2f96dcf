"""Kafka records so large that as many as usual fit neither into memory nor into one Arrow batch."""

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
RUNS = 2
"""The first may end with its JVM: records are unpacked before their size is known."""


def records(count: int) -> Iterator[tuple[None, bytes]]:
    """Each of a megabyte."""
    for _ in range(count):
        yield None, BODY


@pytest.mark.timeout(900)
def test_records_of_a_megabyte_do_not_stop_a_stream(tmp_path, kafka, topic, produce) -> None:
    """All of them in one partition: without a limit in bytes they would be one batch of more than the JVM's memory."""
    name = topic()
    script = tmp_path / "pipeline.sql"
    script.write_text(SCRIPT.format(topic=name, bootstrap=kafka.bootstrap))
    home = tmp_path / "home"
    run = ("run", script, "--once", "--home", home, "--memory", MEMORY)
    settings = {"queue.buffering.max.messages": 200}
    produce(name, records(600), **settings)
    produce(name, records(900), **settings, **{"compression.type": "lz4"})
    done = [icestream(*run, timeout=400)]
    while done[-1].returncode and len(done) < RUNS:
        done.append(icestream(*run, timeout=400))
    assert done[-1].returncode == 0, "\n".join(d.stderr for d in done)
    assert duckdb_count(home, "public.landed") == 1_500
    assert duckdb_count(home, "public.landed", "count(DISTINCT place)") == 1_500
    assert duckdb_count(home, "public.landed", "min(octet_length(body))") == len(BODY)
