"""The faults of the matrix. Each is a function that hurts a running cell and takes the fault away again; after it the matrix
checks that everything is right. It may ask the pipeline for work before, while and after the fault is on."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from icestream.dev.broker import Broker
from tests.engine import await_condition, icestream
from tests.faults.pipelines import Load, Pipeline
from tests.faults.world import PATIENCE, World, second_address
from tests.services.kafka import QUIET

Injection = Callable[[World, Pipeline, random.Random], None]


@dataclass(frozen=True)
class Fault:
    """One column of the matrix."""

    name: str
    inject: Injection
    own_broker: bool = False
    """Whether the broker itself is hurt, so that the cell needs one of its own."""
    shim: bool = False
    """Whether the server runs with the fault library."""
    rest: bool = False
    """Whether the cell has a sink on a REST catalog behind a proxy."""


# -- processes -----------------------------------------------------------------------------------


def kill_at_points(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """Kill the process group the first time it comes by each of three fault points; FAULT_POINTS=all: by each point."""
    every = os.environ.get("FAULT_POINTS") == "all"
    world.server.stop()
    for point in pipeline.points if every else chosen.sample(pipeline.points, 3):
        # The start recovers from the kill before, and may itself be killed on the way.
        world.attempt(lambda p=point: world.server.begin(fault=p))  # type: ignore[misc]
        end = time.monotonic() + PATIENCE
        while world.server.alive:
            assert time.monotonic() < end, f"the server never came by {point}"
            world.attempt(pipeline.work)
            world.attempt(lambda: world.execute("SET statement_timeout = '30s'", "FLUSH"))
            time.sleep(0.5)
    world.server.ensure()


def kill_at_random(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    for _ in range(3):
        load = Load(pipeline.work)
        load.start()
        time.sleep(chosen.uniform(0.3, 4))
        world.server.kill()
        load.stop()
        world.server.ensure()


def wake_after_successor(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """Stop the process group, let a successor take over, wake the old one: it must end and change nothing."""
    load = Load(pipeline.work)
    load.start()
    time.sleep(chosen.uniform(0.3, 3))
    old = world.server.process
    assert old is not None
    os.killpg(old.pid, signal.SIGSTOP)
    port = world.server.port
    load.stopping.set()
    world.server.begin("--take-over")
    try:
        pipeline.work()
        world.execute("FLUSH")
    finally:
        os.killpg(old.pid, signal.SIGCONT)
    load.stop()
    assert world.server.port != port
    assert old.wait(90) != 0, "the process that was fenced ended as if all was well"


def kill_python_worker(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    load = Load(pipeline.work)
    load.start()
    killed = 0
    end = time.monotonic() + 30
    while killed < 3 and time.monotonic() < end:
        for pid in world.server.children("-m icestream.runtime.daemon"):
            os.kill(pid, signal.SIGKILL)
            killed += 1
        time.sleep(chosen.uniform(0.1, 1))
    load.stop()
    assert killed, "there was no Python worker to kill"


def kill_jvm(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """Without its JVM the server must end, so that whoever supervises it starts it again."""
    load = Load(pipeline.work)
    load.start()
    time.sleep(chosen.uniform(0.3, 3))
    os.kill(find_jvm(world), signal.SIGKILL)
    old = world.server.process
    assert old is not None
    try:
        old.wait(60)
    except subprocess.TimeoutExpired:
        raise AssertionError("the server goes on without its JVM") from None
    finally:
        load.stop()


def exhaust_memory(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """The JVM may have no more memory from one moment on: its address space is limited while it works."""
    load = Load(pipeline.work)
    load.start()
    time.sleep(1)
    jvm = find_jvm(world)
    size = int(Path(f"/proc/{jvm}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    subprocess.run(["prlimit", f"--pid={jvm}", f"--as={size}:"], check=True)
    try:
        await_condition(
            lambda: ran_out_of_memory(world, jvm), "the JVM ran out of memory", PATIENCE
        )
        time.sleep(chosen.uniform(1, 4))
    finally:
        load.stop()
        if Path(f"/proc/{jvm}").exists():
            subprocess.run(["prlimit", f"--pid={jvm}", "--as=unlimited:"], check=False)


def find_jvm(world: World) -> int:
    """The process of the server's JVM."""
    return world.server.children("org.apache.spark.deploy.SparkSubmit")[0]


def ran_out_of_memory(world: World, jvm: int) -> bool:
    """Whether a JVM has ended, or has said that it could not get memory."""
    logs = [p for p in (world.home / "logs").glob("jvm*") if p.is_file()]
    words = ("OutOfMemoryError", "Cannot allocate memory", "insufficient memory")
    said = "".join(p.read_text(errors="replace") for p in logs) + "".join(world.server.errors)
    return not Path(f"/proc/{jvm}").exists() or any(word in said for word in words)


def start_second_engine(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """A second engine on the same home is refused; the first goes on."""
    pipeline.work()
    script = world.folder / "second.sql"
    script.write_text("CREATE TABLE second (id INT);")
    for command in (("serve", "--port", "0"), ("run", "--once", script)):
        refused = icestream(*command, "--home", world.home)
        assert refused.returncode != 0
        assert "already running" in refused.stderr, refused.stderr
    assert world.server.alive
    pipeline.work()


# -- disks and clocks ----------------------------------------------------------------------------


def fail_writes(number: int) -> Injection:
    def inject(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
        load = Load(pipeline.work)
        load.start()
        time.sleep(chosen.uniform(0.5, 2))
        world.control.write_text(f"io {number} {world.home}\n")
        try:
            await_condition(world.hits.exists, "a write has failed", 60)
            time.sleep(chosen.uniform(3, 6))
            serve_queries(world, pipeline)
        finally:
            world.control.write_text("")
            load.stop()

    return inject


def serve_queries(world: World, pipeline: Pipeline) -> None:
    """Queries are answered while the fault is on, unless they read a table that has accepted rows and cannot write them."""
    assert world.server.alive, "the server ended"
    with world.server.connect() as client:
        client.execute("SET statement_timeout = '30s'")
        client.execute(f"SELECT count(*) FROM {pipeline.calm or pipeline.last}")
        try:
            client.execute(f"SELECT count(*) FROM {pipeline.last}")
        except psycopg.Error as error:
            if not (pipeline.calm and "rows that were accepted for" in str(error)):
                raise


def jump_clock(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """A day ahead, and half a minute back: nothing happens. An hour back: Iceberg takes no snapshot that is older than
    the newest one, so commits wait until the clock is right again; queries are answered meanwhile."""
    day = 86_400
    for seconds in (day, day - 30):
        world.control.write_text(f"clock {seconds}\n")
        pipeline.work()
        world.await_success(pipeline.check)
    assert world.server.process is not None
    told = {int(line) for line in world.hits.read_text().split()}
    assert {world.server.process.pid, find_jvm(world)} <= told, "a process has the true time"
    world.control.write_text(f"clock {day - 3600}\n")
    world.attempt(pipeline.work)
    time.sleep(3)
    serve_queries(world, pipeline)
    world.control.write_text(f"clock {day}\n")


# -- brokers -------------------------------------------------------------------------------------


def restart_broker(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    pipeline.work()
    world.broker.kill()
    time.sleep(chosen.uniform(2, 6))
    try:
        serve_queries(world, pipeline)
    finally:
        world.broker.start()
    pipeline.work()


def move_broker(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """The broker comes back at the second address that the source names."""
    pipeline.work()
    world.broker.stop()
    world.broker.port = int(world.bootstrap.rpartition(":")[2])
    world.broker.start()
    pipeline.work()


def add_partition(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """Records of a key may go to another partition then: all that came before must have been read."""
    pipeline.work()
    world.await_success(pipeline.check)
    admin = AdminClient({"bootstrap.servers": world.broker.bootstrap, **QUIET})
    admin.create_partitions([NewPartitions(world.topic, 3)])[world.topic].result(30)
    await_condition(
        lambda: len(admin.list_topics(world.topic).topics[world.topic].partitions) == 3,
        "the topic has its third partition",
    )


def overtake_reader(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """First Kafka deletes records that were read: nothing happens. Then it deletes records that were not: the source stops
    and says so, queries are answered, and after a RESET everything goes on behind what was lost."""
    pipeline.work()
    world.await_success(pipeline.check)
    world.server.stop()
    delete_records(world)
    world.server.ensure()
    pipeline.work()
    world.await_success(pipeline.check)
    world.server.stop()
    pipeline.lose_records()
    delete_records(world)
    world.server.ensure()
    lost = "SELECT count(*) FROM rw_event_logs WHERE event_type = 'SOURCE_FAIL'"
    await_condition(lambda: world.query(lost) != [(0,)], "the source says that records are lost")
    serve_queries(world, pipeline)
    pipeline.reset_streams()


def delete_records(world: World) -> None:
    """Delete all records of the topic."""
    admin = AdminClient({"bootstrap.servers": world.broker.bootstrap, **QUIET})
    partitions = admin.list_topics(world.topic).topics[world.topic].partitions
    gone = [TopicPartition(world.topic, p, OFFSET_END) for p in partitions]
    for future in admin.delete_records(gone).values():
        future.result(30)


# -- catalogs ------------------------------------------------------------------------------------


def trouble_catalog(mode: str) -> Injection:
    def inject(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
        assert world.proxy is not None
        pipeline.create_remote_sink(world.proxy.port)
        load = Load(pipeline.work)
        load.start()
        time.sleep(chosen.uniform(0.5, 2))
        world.proxy.mode = mode
        proxy = world.proxy
        try:
            await_condition(lambda: proxy.troubled > 0, "a request to the catalog was hurt", 60)
            if mode == "slow":
                time.sleep(8)
            else:
                lock_catalog(world, chosen.uniform(4, 8))
            serve_queries(world, pipeline)
        finally:
            world.proxy.mode = "pass"
            load.stop()

    return inject


def lock_catalog(world: World, seconds: float) -> None:
    """Nobody can write to the embedded catalog for a while."""
    with closing(sqlite3.connect(world.home / "lake" / "catalog.db", timeout=30)) as database:
        database.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        database.execute("ROLLBACK")


# -- damaged files -------------------------------------------------------------------------------


def list_files(home: Path, names: Sequence[str]) -> list[Path]:
    """The files of these folders and files of a home."""
    found: list[Path] = []
    for name in names:
        for path in sorted(home.glob(name)):
            found += (
                [p for p in sorted(path.rglob("*")) if p.is_file()] if path.is_dir() else [path]
            )
    return found


def damage(*folders: str) -> Injection:
    """Overwrite, cut or delete files that can be made again, while the server is down; and put a file there that is none."""

    def inject(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
        pipeline.work()
        world.await_success(pipeline.check)
        world.server.kill()
        for name in folders:
            folder = world.home / name
            if "*" not in name and "." not in name:  # a pipeline without keys has no index, for one
                folder.mkdir(exist_ok=True)
                (folder / "stray.bin").write_bytes(os.urandom(1000))
        paths = list_files(world.home, folders)
        assert paths, f"there is nothing to damage in {folders}"
        for path in paths:
            match chosen.randrange(3):
                case 0:
                    path.unlink()
                case 1:
                    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
                case 2:
                    path.write_bytes(os.urandom(path.stat().st_size))
        world.server.ensure()

    return inject


def damage_store(world: World, pipeline: Pipeline, chosen: random.Random) -> None:
    """A damaged store is refused with a clear error; with the file from a backup everything goes on."""
    pipeline.work()
    world.await_success(pipeline.check)
    world.server.stop()
    store = world.home / "icestream.db"
    backup = world.folder / "backup.db"
    shutil.copy(store, backup)
    store.write_bytes(os.urandom(8192))
    refused = icestream("serve", "--port", "0", "--home", world.home)
    assert refused.returncode == 1, refused.stderr
    assert "cannot be opened" in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr, refused.stderr
    for leftover in world.home.glob("icestream.db*"):
        leftover.unlink()
    shutil.copy(backup, store)
    world.server.ensure()


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("killed at fault points", kill_at_points),
        Fault("killed at random times", kill_at_random),
        Fault("paused, wakes after its successor", wake_after_successor),
        Fault("Python worker killed", kill_python_worker),
        Fault("JVM killed", kill_jvm),
        Fault("out of memory", exhaust_memory),
        Fault("disk full (ENOSPC)", fail_writes(errno.ENOSPC), shim=True),
        Fault("disk error (EIO)", fail_writes(errno.EIO), shim=True),
        Fault("broker down and back", restart_broker, own_broker=True),
        Fault("broker at a new address", move_broker, own_broker=True),
        Fault("partition added", add_partition),
        Fault("retention reaches the reader", overtake_reader),
        Fault("catalog down", trouble_catalog("down"), rest=True),
        Fault("catalog slow", trouble_catalog("slow"), rest=True),
        Fault("catalog: outcome unknown", trouble_catalog("unknown"), rest=True),
        Fault("clock jumps", jump_clock, shim=True),
        Fault("damaged key index", damage("index")),
        Fault("damaged status files", damage("status.json", "server.json", "run")),
        Fault("damaged store", damage_store),
        Fault("damaged temporary files", damage("tmp")),
        Fault("second engine on the home", start_second_engine),
    )
}


def second_bootstrap(broker: Broker) -> str:
    """Both addresses of a broker that will move."""
    return f"{broker.bootstrap},127.0.0.1:{second_address(broker)}"
