"""`icestream status`: what a home is doing, without starting a JVM."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from icestream.cli.arguments import add_home, home_of
from icestream.observe import status as observe
from icestream.observe.status import ObjectStatus, SourceStatus, Status
from icestream.runtime.lock import running, served


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser("status", help="what a home is doing", description=__doc__)
    parser.add_argument(
        "--format",
        choices=("table", "json"),
        default="table",
        help="for people or for programs (default: %(default)s)",
    )
    add_home(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the status."""
    home = home_of(args)
    status = observe.read(home)
    pid = running(home) if home.root.exists() else None
    if pid is None and status.state in ("running", "paused", "starting"):
        status.state, status.message = (
            "stopped",
            "it ended without saying why; the next start recovers",
        )
    if not status.updated and pid is None:
        status.message = "nothing has run here yet: icestream run FILE.sql"
    status.pid = pid
    status.served = served(home) if pid is not None else None
    if args.format == "json":
        print(json.dumps(status.as_dict(), indent=2))
    else:
        show(status, str(home.root))
    return 0


def show(status: Status, home: str, console: Console | None = None) -> None:
    """The status as text."""
    console = console or Console()
    process = f" (process {status.pid})" if status.pid else ""
    ago = f", {time.time() - status.updated:.0f} s ago" if status.updated else ""
    console.print(
        f"{home}: [bold]{status.state}[/bold]{process}, epoch {status.epoch}{ago}", highlight=False
    )
    if status.served:
        clients = status.served.clients
        people = f"{clients} client{'' if clients == 1 else 's'}"
        console.print(f"  served at {status.served}, {people} connected", highlight=False)
    if status.message:
        console.print(f"  {status.message}", markup=False)
    if status.sources:
        console.print(sources_table(status))
    if status.objects:
        console.print(objects_table(status))


def sources_table(status: Status) -> Table:
    """One row a source."""
    table = Table("source", show_edge=False, pad_edge=False, header_style="bold")
    for name in ("records", "dead letters", "waiting"):
        table.add_column(name, justify="right")
    table.add_column("")
    for source in status.sources:
        waiting = "" if source.lag is None else f"{source.lag:,}"
        dead = f"[red]{source.dead_letters:,}[/red]" if source.dead_letters else "0"
        counts = (source.late, "late"), (source.errors, "failed expressions")
        told = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        told = format_failure(source) or told
        table.add_row(source.name, f"{source.records:,}", dead, waiting, told)
    return table


def objects_table(status: Status) -> Table:
    """One row a stored object or sink."""
    table = Table("object", "kind", show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("rows", justify="right")
    table.add_column("epoch", justify="right")
    table.add_column("table")
    table.add_column("")
    for item in status.objects:
        where = format_failure(item) or item.table or ""
        failed = f"{item.errors:,} failed expressions" if item.errors else ""
        table.add_row(item.name, item.kind, f"{item.rows:,}", str(item.epoch), where, failed)
    return table


def format_failure(item: SourceStatus | ObjectStatus) -> str:
    """Since when something fails, and why; empty if it works."""
    if item.error is None:
        return ""
    seconds = time.time() - (item.failing_since or time.time())
    return f"failing for {seconds:.0f} s: {item.error}"
