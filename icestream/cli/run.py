"""`icestream run FILE…`: apply scripts (or Kafka Connect configurations) and keep the pipeline running."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path
from typing import Any

from icestream.cli.arguments import (
    add_allow_path,
    add_engine,
    allowed_paths,
    home_of,
    script_at,
    settings_of,
)
from icestream.cli.display import Display
from icestream.engine import Engine
from icestream.errors import ConfigError


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "run", help="apply scripts and run the pipeline", description=__doc__
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="SQL scripts, or Kafka Connect sink configurations (.json)",
    )
    parser.add_argument(
        "--once", action="store_true", help="stop when everything that is there now is in"
    )
    parser.add_argument(
        "--take-over", action="store_true", help="fence off a process that still runs on this home"
    )
    add_allow_path(parser, default=".")
    add_engine(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Apply the files in order, then run until told to stop."""
    display = Display()
    stop = threading.Event()
    with (
        Engine(
            home_of(args),
            settings_of(args),
            display.notice,
            take_over=args.take_over,
            allow_paths=allowed_paths(args),
        ) as engine,
        display,
    ):
        for name in args.files:
            apply(engine, Path(name), display)
        if not any(True for _ in engine.catalog):
            raise ConfigError(
                "there is nothing to run: this home has no objects", remedy="icestream run FILE.sql"
            )
        engine.open()
        stop_on_signals(stop, display)
        engine.run(
            stop, once=args.once, report=lambda report: display.epoch(report, engine.status())
        )
        display.finished(engine.status(), stopped=stop.is_set())
    return 0


def apply(engine: Engine, path: Path, display: Display) -> None:
    """Apply one file; the results go to the display."""
    engine.execute(script_at(path), str(path), display.result)


def stop_on_signals(stop: threading.Event, display: Display) -> None:
    """The first Ctrl-C or SIGTERM stops at the epoch's end; a second Ctrl-C interrupts at once."""

    def handle(number: int, frame: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()
        display.notice("stopping at the end of the epoch")

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
