"""The command line: `icestream run | sql | plan | status | demo | dev | doctor`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from icestream import __version__
from icestream.cli import demo, dev, doctor, plan, run, sql, status
from icestream.errors import FencedError, IcestreamError

FENCED = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code: 0 fine, 1 an error, 2 wrong usage, 3 fenced by a newer process."""
    parser = argparse.ArgumentParser(
        prog="icestream",
        description="SQL-first streaming into Apache Iceberg, exactly once, on Apache Spark.",
    )
    parser.add_argument("--version", action="version", version=f"icestream {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (run, sql, plan, status, demo, dev, doctor):
        module.add_parser(commands)
    args = parser.parse_args(argv)
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
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
