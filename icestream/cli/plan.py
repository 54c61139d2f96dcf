"""`icestream plan FILE`: what running a script would change. Changes nothing and starts no JVM."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from icestream.catalog.show import explain_object
from icestream.cli.arguments import add_allow_path, add_home, allowed_paths, home_of, script_at
from icestream.engine import Engine


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("plan", help="what a script would change", description=__doc__)
    parser.add_argument(
        "file", metavar="FILE", help="a SQL script, or a Kafka Connect sink configuration (.json)"
    )
    add_allow_path(parser, default=".")
    add_home(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one line an object, and the plan of each new one."""
    path = Path(args.file)
    text = script_at(path)
    counts = {"create": 0, "differs": 0, "unchanged": 0}
    with Engine(home_of(args), allow_paths=allowed_paths(args)) as engine:
        for change in engine.plan(text, str(path)):
            kind, name = change.object.kind, change.object.name
            if not change.exists:
                counts["create"] += 1
                print(f"+ create {kind} {name}")
                for line in explain_object(change.object):
                    print(f"    {line}")
            elif change.difference:
                counts["differs"] += 1
                print(f"! {kind} {name} exists and differs")
                for line in change.difference:
                    print(f"    {line}")
            else:
                counts["unchanged"] += 1
                print(f"= {kind} {name} is unchanged")
    print(
        f"{counts['create']} to create, {counts['differs']} different, {counts['unchanged']} unchanged"
    )
    return 1 if counts["differs"] else 0
