"""`icestream sql "…"`: run statements on a home, through its server if it has one, and print what they give."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from icestream.cli.arguments import (
    add_allow_path,
    add_engine,
    allowed_paths,
    home_of,
    settings_of,
)
from icestream.cli.printers import FORMATS, print_result
from icestream.engine import Engine
from icestream.runtime.lock import served


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("sql", help="run SQL statements on a home", description=__doc__)
    parser.add_argument("text", help="the statements; - reads them from standard input")
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        default="table",
        help="how rows are printed (default: %(default)s)",
    )
    add_allow_path(parser, default=".")
    add_engine(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Execute, and print each result as soon as it is there."""
    text = sys.stdin.read() if args.text == "-" else args.text
    serving = served(home_of(args))
    if serving is not None:
        from icestream.cli.served import results

        for result in results(serving, text):
            print_result(result, args.format)
        return 0
    with Engine(
        home_of(args), settings_of(args), notice=_note, allow_paths=allowed_paths(args)
    ) as engine:
        engine.execute(text, on_result=lambda result: print_result(result, args.format))
    return 0


def _note(text: str) -> None:
    print(text, file=sys.stderr)
