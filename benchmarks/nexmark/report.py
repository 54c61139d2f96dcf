"""What was measured of Nexmark, kept over several runs; the goals; the report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from statistics import median

from benchmarks.chart import panels
from benchmarks.harness import describe, machine
from benchmarks.nexmark import queries

OURS, FLINK = "icestream", "Flink"
TITLE = "Nexmark: Kafka → views in Iceberg"


@dataclass(frozen=True)
class Measured:
    """One query by one contender: every single run, in order, or why there is none."""

    query: str
    contender: str
    events: int
    """Events in the topics that the query reads."""
    seconds: Sequence[float] = ()
    """From process start to the end."""
    working: Sequence[float] = ()
    """Without the start: what the epochs took, what Flink's job took."""
    cpu: Sequence[float] = ()
    rows: int | None = None
    """Rows of the result."""
    epochs: int | None = None
    date: str = ""
    error: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What a later measurement replaces."""
        return self.query, self.contender

    @property
    def rate(self) -> float:
        """Events a second, from process start."""
        return self.events / median(self.seconds)

    @property
    def working_rate(self) -> float:
        """Events a second, without the start."""
        return self.events / max(median(self.working), 0.001)


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as Flink this engine runs a query: in all, without starts, by CPU seconds."""

    query: str
    wall: float
    working: float
    cpu: float


@dataclass(frozen=True)
class Goal:
    """What was aimed at, and what came out: None if it was not measured."""

    name: str
    aim: str
    found: str | None
    reached: bool | None

    @property
    def verdict(self) -> str:
        """Reached or not, in words."""
        if self.found is None:
            return "not measured"
        words = {True: "reached", False: "**not reached**", None: "not all measured"}
        return f"{self.found} – {words[self.reached]}"


def ratios(measured: Sequence[Measured]) -> list[Ratio]:
    """For every query that both sides ran."""
    known = {each.key: each for each in measured if each.error is None}
    found = []
    for query in queries.ALL:
        ours, theirs = known.get((query, OURS)), known.get((query, FLINK))
        if ours and theirs:
            found.append(
                Ratio(
                    query,
                    ours.rate / theirs.rate,
                    ours.working_rate / theirs.working_rate,
                    median(theirs.cpu) / median(ours.cpu),
                )
            )
    return found


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios."""
    return exp(sum(map(log, values)) / len(values))


def goals(measured: Sequence[Measured]) -> list[Goal]:
    """The goals of the benchmark."""
    ours = [each for each in measured if each.contender == OURS]
    right = sum(each.error is None for each in ours)
    whole = len(queries.ALL)
    complete = len(ours) == whole
    found = [
        Goal(
            "queries that run, each with the rows that DuckDB finds",
            f"{whole} of {whole}",
            f"{right} of {len(ours)}" if ours else None,
            right == whole if complete else None if right == len(ours) else False,
        )
    ]
    compared = ratios(measured)
    for name, values in (
        ("events a second to Flink's, geometric mean", [r.wall for r in compared]),
        ("the same without the start of either", [r.working for r in compared]),
        ("Flink's CPU seconds to ours, geometric mean", [r.cpu for r in compared]),
    ):
        mean = geometric_mean(values) if values else None
        shown = None if mean is None else f"{mean:.2f} × over {len(values)} queries"
        found.append(Goal(name, "≥ 1 ×", shown, None if mean is None else mean >= 1))
    return found


def merge(results: Path, settings: Mapping[str, object], new: Sequence[Measured]) -> list[Measured]:
    """Earlier measurements of the same settings, with the new ones in place of their predecessors."""
    file = results / "nexmark.json"
    old: list[Measured] = []
    if file.exists():
        document = json.loads(file.read_text())
        if document["settings"] == dict(settings):
            old = [Measured(**each) for each in document["measured"]]
    known = {each.key: each for each in [*old, *new]}
    sides = [OURS, FLINK]
    return sorted(
        known.values(), key=lambda m: (queries.ALL.index(m.query), sides.index(m.contender))
    )


def report(
    results: Path, settings: Mapping[str, object], what: str, new: Sequence[Measured]
) -> list[Measured]:
    """Writes nexmark.json, .md and .svg, and returns all that is known now."""
    results.mkdir(parents=True, exist_ok=True)
    measured = merge(results, settings, new)
    here = machine()
    document = {
        "title": TITLE,
        "what": what,
        "settings": dict(settings),
        "machine": here,
        "goals": [asdict(each) for each in goals(measured)],
        "ratios": [asdict(each) for each in ratios(measured)],
        "measured": [asdict(each) for each in measured],
    }
    (results / "nexmark.json").write_text(json.dumps(document, indent=1) + "\n")
    good = [each for each in measured if each.error is None]
    if good:
        rows = [
            (
                f"{each.query} {each.contender}",
                each.rate,
                each.events / max(each.seconds),
                each.events / min(each.seconds),
            )
            for each in good
        ]
        ours = {label for label, *_ in rows if label.endswith(OURS)}
        chart = panels([("Events a second, from process start", rows)], ours)
        (results / "nexmark.svg").write_text(chart)
    (results / "nexmark.md").write_text(_markdown(what, here, measured, bool(good)))
    return measured


def _markdown(
    what: str, here: Mapping[str, object], measured: Sequence[Measured], chart: bool
) -> str:
    lines = [f"# {TITLE}", "", what, "", f"{describe(here)}.", ""]
    if chart:
        lines += [f"![{TITLE}](nexmark.svg)", ""]
    lines += ["| goal | aim | found |", "|---|---|---|"]
    lines += [f"| {each.name} | {each.aim} | {each.verdict} |" for each in goals(measured)]
    return "\n".join([*lines, "", *table(measured)]) + "\n"


def table(measured: Sequence[Measured]) -> list[str]:
    """All queries as lines of Markdown."""
    compared = {each.query: each for each in ratios(measured)}
    known = {each.key: each for each in measured}
    lines = [
        "| | | rows | events/s | without start | CPU s | Flink: events/s | without start | CPU s "
        "| ours to Flink's | without start | by CPU |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for query in queries.ALL:
        ours, theirs = known.get((query, OURS)), known.get((query, FLINK))
        if ours is None and theirs is None:
            continue
        ratio = compared.get(query)
        rows = next((m.rows for m in (ours, theirs) if m and m.rows is not None), None)
        cells = [query, queries.title(query), "" if rows is None else f"{rows:,}"]
        cells += [*_cells(ours), *_cells(theirs)]
        if ratio is None:
            cells += [""] * 3
        else:
            cells += [f"{each:.2f} ×" for each in (ratio.wall, ratio.working, ratio.cpu)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cells(one: Measured | None) -> list[str]:
    if one is None:
        return [""] * 3
    if one.error is not None:
        return [f"failed: {one.error.replace('|', '/')}", "", ""]
    return [f"{one.rate:,.0f}", f"{one.working_rate:,.0f}", f"{median(one.cpu):.1f}"]
