"""The command line: `icestream run | serve | sql | plan | status | demo | dev | doctor`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from icestream import __version__
from icestream.cli import demo, dev, doctor, plan, run, serve, sql, status
from icestream.config import Home
from icestream.errors import FencedError, IcestreamError
from icestream.home_log import write_failure
from icestream.secrecy import MaskingFormatter, mask_secrets

FENCED = 3
FAILURE_LINES = 300


def command_line() -> argparse.ArgumentParser:
    """All commands and their flags."""
    parser = argparse.ArgumentParser(
        prog="icestream",
        description="SQL-first streaming into Apache Iceberg, exactly once, on Apache Spark.",
    )
    parser.add_argument("--version", action="version", version=f"icestream {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (run, serve, sql, plan, status, demo, dev, doctor):
        module.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code: 0 fine, 1 an error, 2 wrong usage, 3 fenced by a newer process."""
    if logging.lastResort is not None:  # what is logged goes to stderr, without secrets
        logging.lastResort.setFormatter(MaskingFormatter("%(message)s"))
    args = command_line().parse_args(argv)
    try:
        return int(args.run(args))
    except FencedError as error:
        print(f"icestream: {error}", file=sys.stderr)
        return FENCED
    except IcestreamError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    except Exception as error:
        if os.environ.get("ICESTREAM_DEBUG"):
            raise
        print(f"error: {_unexpected(error, args)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _unexpected(error: Exception, args: argparse.Namespace) -> str:
    """One line for a failure nobody foresaw; the whole story goes to the home's log."""
    lines = [line.strip() for line in mask_secrets(str(error)).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0][:FAILURE_LINES] if lines else 'no message'}"
    home = getattr(args, "home", None)
    if home is None:
        return f"{text} (set ICESTREAM_DEBUG=1 for the details)"
    try:
        log = write_failure(Home.at(home).logs, f"icestream {args.command} has failed", error)
    except OSError:
        return f"{text} (set ICESTREAM_DEBUG=1 for the details)"
    return f"{text}\n  hint: the details are in {log}"
