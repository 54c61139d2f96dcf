"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from icestream.config import DEFAULT_HOME, EngineSettings, Home
from icestream.errors import ConfigError
from icestream.sql.options import seconds


def add_home(parser: argparse.ArgumentParser) -> None:
    """--home DIR"""
    parser.add_argument(
        "--home",
        metavar="DIR",
        default=os.environ.get("ICESTREAM_HOME", DEFAULT_HOME),
        help=f"where the engine keeps its state (default: $ICESTREAM_HOME or {DEFAULT_HOME})",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Options of commands that start Spark."""
    add_home(parser)
    defaults = EngineSettings()
    parser.add_argument(
        "--master",
        metavar="URL",
        default=defaults.master,
        help="Spark master (default: %(default)s)",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        default=defaults.driver_memory,
        help="memory of Spark's driver (default: %(default)s)",
    )
    parser.add_argument(
        "--epoch-interval",
        metavar="TIME",
        default=f"{defaults.epoch_interval:g}s",
        help="time between epochs while data arrives (default: %(default)s)",
    )


def home_of(args: argparse.Namespace) -> Home:
    """The home that was named."""
    return Home.at(args.home)


def script_at(path: Path) -> str:
    """The SQL of a script, or of a Kafka Connect configuration (.json) turned into it."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path} cannot be read: {reason}") from error
    if path.suffix != ".json":
        return text
    from icestream.connect import script_of

    return script_of(text, str(path))


def settings_of(args: argparse.Namespace) -> EngineSettings:
    """The engine settings that were given."""
    try:
        interval = seconds(args.epoch_interval)
    except ValueError:
        raise ConfigError(
            f"--epoch-interval accepts a duration such as 500ms or 10s, not {args.epoch_interval!r}"
        ) from None
    if not re.fullmatch(r"\d+[kmgtKMGT]?b?", args.memory):
        raise ConfigError(f"--memory accepts a size such as 2g, not {args.memory!r}")
    return EngineSettings(master=args.master, driver_memory=args.memory, epoch_interval=interval)
