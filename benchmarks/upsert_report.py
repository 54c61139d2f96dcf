"""What was measured of upserts, kept over several runs; the goals; the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.chart import Row, panels
from benchmarks.harness import describe, machine

OURS, MERGE, PYICEBERG, FLINK = "icestream", "MERGE INTO", "PyIceberg", "Flink"

BATCH, STREAM, SCAN, SCAN_BATCHES = "batch", "stream", "scan", "scan after batches"

TITLE = "Changes from Kafka → upserts of an Iceberg table"
PARTS = {
    BATCH: (
        "Seconds a batch",
        "From “the batch is in the topic” to “its commit is visible”, warm processes that take turns "
        "batch by batch. PyIceberg gets one batch, decoded, without its deletes (it has none).",
    ),
    STREAM: (
        "Changes a second, all batches as one stream",
        "From process start to the last commit.",
    ),
    SCAN: (
        "Seconds to read all columns, right after the stream",
        "By one warm Spark session, in turns, before any compaction; the best counts.",
    ),
    SCAN_BATCHES: (
        "Seconds to read all columns, right after the batches",
        "The same, one commit for every batch.",
    ),
}


@dataclass(frozen=True)
class Measured:
    """One contender in one part: every single time, in order."""

    part: str
    contender: str
    base: int
    changes: int
    """Changes, or rows of a scan, that each of the times was for."""
    seconds: Sequence[float]
    cpu: Sequence[float] = ()
    date: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int, str]:
        """What a later measurement replaces."""
        return self.part, self.base, self.contender

    @property
    def value(self) -> float:
        """The one number that counts: seconds (the median, of a scan the best), changes a second of a stream."""
        if self.part == STREAM:
            return self.changes / median(self.seconds)
        return median(self.seconds) if self.part == BATCH else min(self.seconds)

    @property
    def row(self) -> Row:
        """A bar of the chart."""
        label = f"{self.contender}, {millions(self.base)}"
        spread = [self.changes / s if self.part == STREAM else s for s in self.seconds]
        return label, self.value, min(spread), max(spread)


def millions(base: int) -> str:
    """A number of rows in few letters."""
    return f"{base / 1e6:g} M" if base >= 1_000_000 else f"{base / 1e3:g} k"


@dataclass(frozen=True)
class Goal:
    """What was aimed at, and what came out: None if it was not measured."""

    name: str
    aim: str
    found: float | None
    reached: bool | None
    cpu: float | None = None
    """The same by CPU seconds, which the neighbours' load changes less."""


def goals(measured: Sequence[Measured]) -> list[Goal]:
    """The goals of the issue."""
    known = {each.key: each for each in measured}
    bases = sorted({base for _, base, _ in known})
    found: list[Goal] = []

    def goal(
        name: str, aim: str, over: tuple[str, int, str], under: tuple[str, int, str],
        good: Callable[[float], bool],
    ) -> None:  # fmt: skip
        one, other = known.get(over), known.get(under)
        if one is None or other is None:
            found.append(Goal(name, aim, None, None))
            return
        ratio, cpu = one.value / other.value, None
        if one.cpu and other.cpu:
            cpu = median(one.cpu) / median(other.cpu)
            cpu = 1 / cpu if one.part == STREAM else cpu
        found.append(Goal(name, aim, ratio, good(ratio), cpu))

    for base in bases:
        size = millions(base)
        merge, ours = (BATCH, base, MERGE), (BATCH, base, OURS)
        if base == bases[-1]:
            goal(f"faster than MERGE INTO, {size} rows", "≥ 3 ×", merge, ours, lambda r: r >= 3)
        if base != bases[0]:
            name = f"a batch at {size} rows to one at {millions(bases[0])}"
            goal(name, "≤ 1.3 ×", ours, (BATCH, bases[0], OURS), lambda r: r <= 1.3)
        stream = (STREAM, base, OURS), (STREAM, base, FLINK)
        goal(f"write rate to Flink's, {size} rows", "≥ 1 ×", *stream, lambda r: r >= 1)
        scan = (SCAN, base, FLINK), (SCAN, base, OURS)
        goal(
            f"full scan faster than of Flink's table, {size} rows", "≥ 3 ×", *scan, lambda r: r >= 3
        )
        slow = (BATCH, base, PYICEBERG), ours
        goal(f"faster than PyIceberg's upsert, {size} rows", "≥ 20 ×", *slow, lambda r: r >= 20)
    return found


def merge(results: Path, settings: Mapping[str, object], new: Sequence[Measured]) -> list[Measured]:
    """Earlier measurements of the same settings, with the new ones in place of their predecessors."""
    file = results / "upsert.json"
    old: list[Measured] = []
    if file.exists():
        document = json.loads(file.read_text())
        if document["settings"] == dict(settings):
            old = [Measured(**each) for each in document["measured"]]
    known = {each.key: each for each in [*old, *new]}
    order = list(PARTS), [OURS, MERGE, PYICEBERG, FLINK]
    return sorted(
        known.values(), key=lambda m: (order[0].index(m.part), m.base, order[1].index(m.contender))
    )


def report(
    results: Path, settings: Mapping[str, object], what: str, new: Sequence[Measured]
) -> list[Goal]:
    """Writes upsert.json, .md and .svg, and returns the goals."""
    results.mkdir(parents=True, exist_ok=True)
    measured = merge(results, settings, new)
    aims = goals(measured)
    here = machine()
    document = {
        "title": TITLE,
        "what": what,
        "settings": dict(settings),
        "machine": here,
        "goals": [asdict(each) for each in aims],
        "measured": [asdict(each) for each in measured],
    }
    (results / "upsert.json").write_text(json.dumps(document, indent=1) + "\n")
    charts = [
        (title, rows)
        for part, (title, _) in PARTS.items()
        if (rows := [each.row for each in measured if each.part == part])
    ]
    ours = {row[0] for _, rows in charts for row in rows if row[0].startswith(OURS)}
    (results / "upsert.svg").write_text(panels(charts, ours))
    (results / "upsert.md").write_text(_markdown(what, here, measured, aims))
    return aims


def verdict(goal: Goal) -> str:
    """Reached or not, in words."""
    if goal.found is None:
        return "not measured"
    return f"{goal.found:.2f} × – {'reached' if goal.reached else '**not reached**'}"


def _markdown(
    what: str, here: Mapping[str, object], measured: Sequence[Measured], aims: Sequence[Goal]
) -> str:
    lines = [f"# {TITLE}", "", what, "", f"{describe(here)}.", "", f"![{TITLE}](upsert.svg)", ""]
    lines += ["| goal | aim | found | by CPU seconds |", "|---|---|---|---|"]
    for each in aims:
        cpu = "" if each.cpu is None else f"{each.cpu:.2f} ×"
        lines.append(f"| {each.name} | {each.aim} | {verdict(each)} | {cpu} |")
    for part, (title, note) in PARTS.items():
        if mine := [each for each in measured if each.part == part]:
            lines += ["", f"## {title}", "", note, "", *_table(part, mine)]
    return "\n".join(lines) + "\n"


def _table(part: str, measured: Sequence[Measured]) -> list[str]:
    value = "changes/s" if part == STREAM else "seconds"
    lines = [
        f"| base | | {value} | CPU seconds | all seconds | measured | notes |",
        "|---|---|---|---|---|---|---|",
    ]
    for m in measured:
        shown = f"{m.value:,.0f}" if part == STREAM else f"{m.value:.2f}"
        cpu = f"{median(m.cpu):.1f}" if m.cpu else ""
        times = " ".join(f"{each:.2f}" for each in m.seconds)
        notes = ", ".join(f"{key} {value}" for key, value in m.notes.items())
        lines.append(
            f"| {millions(m.base)} | {m.contender} | {shown} | {cpu} | {times} | {m.date} | {notes} |"
        )
    return lines
