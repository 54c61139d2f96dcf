"""The servers that tests and the demo stand on do what they promise."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from icestream.dev.broker import Broker
from tests.services import kafka as client
from tests.services.aws import AwsServer
from tests.services.rest_catalog import RestCatalogServer

pytestmark = pytest.mark.services


def test_broker_keeps_what_was_produced(kafka, topic, produce):
    name = topic(partitions=2)
    sent = [(f"k{i}", f"v{i}") for i in range(5_000)]
    assert produce(name, sent) == 5_000
    rows = client.consume(kafka.bootstrap, name)
    assert sorted((key, value) for _, _, key, value in rows) == sorted(
        (key.encode(), value.encode()) for key, value in sent
    )
    assert {partition for partition, *_ in rows} == {0, 1}


def test_broker_makes_topics_on_first_use_and_takes_large_records(kafka, produce):
    assert produce("made-on-first-use", [(None, b"x" * 4_000_000)]) == 1
    assert len(client.consume(kafka.bootstrap, "made-on-first-use")[0][3]) == 4_000_000


def test_deleted_topic_is_gone(kafka, topic):
    name = topic()
    client.delete_topic(kafka.bootstrap, name)
    admin = client.AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert name not in admin.list_topics(timeout=30).topics


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_restarted_broker_has_its_data_and_its_port(tmp_path, end):
    broker = Broker(tmp_path / "kafka").start()
    try:
        before = broker.bootstrap
        client.create_topic(broker.bootstrap, "t")
        client.produce(broker.bootstrap, "t", [(None, f"v{i}") for i in range(100)])
        getattr(broker, end)()
        assert broker.pid is None
        broker.start()
        assert broker.bootstrap == before
        assert [v for *_, v in client.consume(broker.bootstrap, "t")] == [
            f"v{i}".encode() for i in range(100)
        ]
    finally:
        broker.stop()


def test_broker_dies_with_its_parent(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from icestream.dev.broker import Broker\n"
        "print(Broker(Path(sys.argv[1])).start().pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert wait_until(lambda: not alive(pid)), f"the broker {pid} outlived its parent"


def test_dev_kafka_says_where_it_is_and_stops_on_sigterm(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "icestream", "dev", "kafka", "--port=0", f"--dir={tmp_path}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        line = output.readline()
        assert line.startswith("Kafka is ready on 127.0.0.1:")
        address = line.split()[4].rstrip(";")
        client.produce(address, "t", [(None, "v")])
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_rest_catalog_answers_and_keeps_tables(rest_catalog: RestCatalogServer):
    with urlopen(f"{rest_catalog.uri}/v1/config") as answer:
        assert "defaults" in json.load(answer)
    catalog = load_catalog("rest", type="rest", uri=rest_catalog.uri)
    catalog.create_namespace("servers")
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    table = catalog.create_table("servers.t", schema)
    assert catalog.list_tables("servers") == [("servers", "t")]
    assert Path(table.location().removeprefix("file:")).is_relative_to(rest_catalog.warehouse)


def test_aws_serves_s3_and_glue(aws: AwsServer):
    assert aws.bucket("servers") == "s3://servers"
    s3, glue = aws.client("s3"), aws.client("glue")
    s3.put_object(Bucket="servers", Key="a/b", Body=b"hello")
    assert s3.get_object(Bucket="servers", Key="a/b")["Body"].read() == b"hello"
    glue.create_database(DatabaseInput={"Name": "servers"})
    assert "servers" in {d["Name"] for d in glue.get_databases()["DatabaseList"]}


def alive(pid: int) -> bool:
    """Whether it still runs: one that has ended may linger until whoever inherited it asks for its fate."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_until(condition, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
