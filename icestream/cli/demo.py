"""`icestream demo`: a real broker, a generator of web events and the clickstream pipeline, on this machine.

Everything lives in a directory of its own and stops by itself after a minute of data; --forever goes on
until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import threading
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any

from icestream.cli.display import Display
from icestream.cli.printers import print_result
from icestream.cli.run import stop_on_signals
from icestream.config import EngineSettings, Home
from icestream.dev.broker import Broker
from icestream.engine import Engine
from icestream.observe.report import EpochReport
from icestream.result import Result

TOPIC = "web.clickstream"


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "demo", help="see it work: Kafka to Iceberg on this machine", description=__doc__
    )
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=int,
        default=60,
        help="seconds of data (default: %(default)s)",
    )
    parser.add_argument(
        "--rate", metavar="N", type=int, default=2000, help="events a second (default: %(default)s)"
    )
    parser.add_argument("--forever", action="store_true", help="go on until Ctrl-C")
    parser.add_argument(
        "--home",
        metavar="DIR",
        default=".icestream/demo",
        help="where it lives (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def script() -> str:
    """The pipeline's SQL, which is also examples/clickstream/pipeline.sql."""
    return resources.files("icestream.dev").joinpath("clickstream.sql").read_text()


def run(args: argparse.Namespace) -> int:
    """Start everything, run, print what came out."""
    from icestream.dev.clickstream import Clickstream

    home = Home.at(args.home)
    display = Display()
    stop = threading.Event()
    with ExitStack() as stack:
        display.notice("starting a Kafka broker on this machine …")
        broker = Broker(home.root / "kafka", 0, partitions=2)
        stack.callback(broker.stop)
        broker.start(progress=display.notice)
        display.notice(f"Kafka is ready on {broker.bootstrap}")
        env = {**os.environ, "KAFKA": broker.bootstrap}
        settings = EngineSettings(driver_memory="1g")
        engine = stack.enter_context(Engine(home, settings, display.notice, env=env))
        clicks = Clickstream(engine.spark, broker.bootstrap, TOPIC, args.rate)
        clicks.send(10)
        display.notice("applying the pipeline:\n")
        display.notice(script())
        engine.execute(script(), "clickstream.sql", display.result)
        engine.open()
        stop_on_signals(stop, display)
        clicks.start()
        stack.callback(clicks.stop)
        length = "until Ctrl-C" if args.forever else f"for {args.seconds} s"
        display.notice(f"generating {args.rate:,} events a second {length}")
        if not args.forever:
            timer = threading.Timer(args.seconds, stop.set)
            timer.daemon = True
            timer.start()

        def progress(report: EpochReport) -> None:
            display.epoch(report, engine.status())

        with display:
            engine.run(stop, report=progress)
            clicks.stop()
            engine.run(threading.Event(), once=True, report=progress)
            display.finished(engine.status(), stopped=True)
        _summary(engine, home, display, clicks.sent)
    return 0


def _summary(engine: Engine, home: Home, display: Display, sent: int) -> None:
    """What is in the lake now, and where to look further."""
    display.notice(f"\n{sent:,} events were sent. What other engines see in the Iceberg table:\n")
    spark = engine.spark
    for text in (
        "SELECT section, count(*) AS events, count(DISTINCT user_id) AS visitors "
        "FROM lake.analytics.page_events GROUP BY section ORDER BY events DESC",
        "SELECT reason, count(*) AS dead_letters FROM lake.dead_letters.clickstream_events GROUP BY reason",
    ):
        frame = spark.sql(text)
        print_result(
            Result(columns=tuple(frame.columns), rows=[tuple(r) for r in frame.collect()]), "table"
        )
        print()
    here = Path(os.path.relpath(home.root))
    display.notice(
        "Look further:\n"
        f"  icestream status --home {here}\n"
        f"  icestream sql --home {here} 'SHOW CREATE SINK clickstream_to_iceberg'\n"
        f"  icestream sql --home {here} 'SELECT * FROM dead_letters.clickstream_events LIMIT 3'\n"
        f"  {here}/lake: an Iceberg catalog on SQLite, which PyIceberg, Spark and DuckDB read"
    )
