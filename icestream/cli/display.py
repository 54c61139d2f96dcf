"""What `run` shows while it works: a live view on a terminal, plain lines otherwise."""

from __future__ import annotations

import re
import sys
import time

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from icestream.cli.status import objects_table, sources_table
from icestream.identity import ObjectKey, object_name
from icestream.observe.report import EpochReport
from icestream.observe.status import Status
from icestream.result import Result

STATE = re.compile(r"#\d+/(\d+|one)(/\d+)*$")
"""The key of a table that a view keeps for itself."""


class Display:
    """Progress of a run. Notices scroll; the live view stays below them."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.live: Live | None = None
        self.began = time.monotonic()
        self.records = 0

    def __enter__(self) -> Display:
        self.began = time.monotonic()
        if self.console.is_terminal:
            self.live = Live(Text("starting …"), console=self.console, refresh_per_second=4)
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def notice(self, text: str) -> None:
        """One line that stays."""
        self.console.print(text, markup=False, soft_wrap=True)

    def result(self, result: Result) -> None:
        """What a statement of a script gave."""
        if result.message:
            self.notice(result.message)
        elif result.columns:
            from icestream.cli.printers import print_result

            print_result(result, "table")

    def epoch(self, report: EpochReport, status: Status) -> None:
        """An epoch is complete."""
        records = sum(report.records.values())
        self.records += records
        rate = records / report.seconds if report.seconds else 0
        line = (
            f"epoch {report.epoch}: {records:,} records in {report.seconds:.2f} s ({rate:,.0f}/s)"
        )
        if dead := sum(report.dead.values()):
            line += f", {dead:,} dead letter{'' if dead == 1 else 's'}"
        if late := sum(report.late.values()):
            line += f", {late:,} late"
        if self.live is None:
            rows = ", ".join(
                f"{object_name(key)} +{n:,}"
                for key, n in report.rows.items()
                if not ObjectKey(key).is_dead_letters and not STATE.search(key)
            )
            self.notice(f"{line}{': ' + rows if rows else ''}")
            return
        total = Text(
            f"{self.records:,} records in {time.monotonic() - self.began:.0f} s", style="dim"
        )
        waiting = sum(source.lag or 0 for source in status.sources)
        bar = ProgressBar(total=self.records + waiting or 1, completed=self.records, width=60)
        tables = sources_table(status), objects_table(status)
        self.live.update(Group(Text(line), Padding(bar, 0), *tables, total))

    def finished(self, status: Status, *, stopped: bool) -> None:
        """The run has ended well."""
        if self.live is not None:
            self.live.stop()
            self.live = None
        how = "stopped cleanly" if stopped else "everything is in"
        self.notice(f"{how}: epoch {status.epoch}, {self.records:,} records in this run")
        sys.stderr.flush()
