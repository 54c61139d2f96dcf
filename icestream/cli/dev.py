"""`icestream dev kafka`: the embedded broker in the foreground, for people who try things."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from icestream.dev.broker import Broker
from icestream.errors import ConnectorError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `dev` and its own commands to the command line."""
    dev = subparsers.add_parser("dev", help="servers for trying things on this machine")
    commands = dev.add_subparsers(dest="server", required=True, metavar="SERVER")
    kafka = commands.add_parser(
        "kafka",
        help="a Kafka broker on this machine until Ctrl-C",
        description="Runs a single-node Kafka broker on 127.0.0.1; topics are created on first use.",
    )
    kafka.add_argument("--port", type=int, default=9092, help="0 for any free one (default 9092)")
    kafka.add_argument("--dir", type=Path, help="keeps topics there (default: gone when it stops)")
    kafka.add_argument(
        "--partitions",
        type=int,
        default=1,
        metavar="N",
        help="of a topic made on first use (default 1)",
    )
    kafka.set_defaults(run=run_dev_kafka)


def run_dev_kafka(args: argparse.Namespace) -> int:
    """Starts the broker, says where it is, and waits for Ctrl-C or SIGTERM."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with ExitStack() as stack:
        folder = args.dir or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="icestream-kafka-"))
        )
        broker = Broker(folder, args.port, partitions=args.partitions)
        stack.callback(broker.stop)
        broker.start(progress=lambda line: print(line, file=sys.stderr, flush=True))
        print(
            f"Kafka is ready on {broker.bootstrap}; in SQL: WITH (connector = 'kafka', "
            f"topic = 'events', properties.bootstrap.server = '{broker.bootstrap}'). "
            "Ctrl-C stops it.",
            flush=True,
        )
        while not stopping.wait(0.5):
            if broker.pid is None:
                raise ConnectorError("the Kafka broker ended", remedy=f"see {broker.log_file}")
    return 0
