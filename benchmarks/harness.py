"""What all benchmarks share: contenders in, interleaved runs, a checked and plotted report out.

A contender is a command that does the whole work once, as a process of its own, and prints a JSON
object as its last line: `rows`, and `seconds` if its own clock is better than the process's (a
server that has to be stopped after the work is done). Contenders take turns (A B C, A B C, …), so
that a neighbour's load falls on all of them; medians are compared. Every result is handed to
`check` before it counts.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.chart import bars

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Contender:
    """One side of a comparison.

    `command` gets the empty folder of this run and returns the command line; `prepare` is called
    once before the first run, for downloads that are not part of the work, and `before` before
    every run, to put back what the run before it has changed.
    """

    name: str
    command: Callable[[Path], Sequence[str]]
    prepare: Callable[[], object] = lambda: None
    environment: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Run:
    """One measured run: seconds until the work was done, CPU seconds of the whole process tree."""

    contender: str
    round: int
    seconds: float
    wall: float
    cpu: float
    peak_mb: float
    rows: int
    output: Mapping[str, Any]


Check = Callable[[Contender, Path, Mapping[str, Any]], None]


def compete(
    contenders: Sequence[Contender],
    folder: Path,
    rounds: int = 3,
    check: Check | None = None,
    timeout: float = 1800,
) -> list[Run]:
    """Runs every contender `rounds` times, in turns, each time in an empty folder.

    A contender that fails, or whose result does not pass the check, ends the benchmark: a fast
    wrong answer is no answer.
    """
    for contender in contenders:
        contender.prepare()
    runs = []
    for number in range(1, rounds + 1):
        for contender in contenders:
            place = folder / f"{number}-{contender.name.replace(' ', '-')}"
            place.mkdir(parents=True)
            contender.before()
            run = _run(contender, number, place, timeout)
            if check is not None:
                check(contender, place, run.output)
            shutil.rmtree(place)
            print(
                f"round {number}  {contender.name:<20} {run.seconds:7.1f} s  "
                f"{run.rows / run.seconds:>10,.0f} rows/s  {run.cpu:7.1f} s of CPU",
                flush=True,
            )
            runs.append(run)
    return runs


def _run(contender: Contender, number: int, place: Path, timeout: float) -> Run:
    measured, log = place / "measured.json", place / "contender.log"
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.measure", str(measured), *contender.command(place)],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={**os.environ, **contender.environment},
            timeout=timeout,
            check=False,
        )
    figures: dict[str, Any] = {"status": "unknown"}
    if measured.exists():
        figures = json.loads(measured.read_text())
    if done.returncode != 0 or figures["status"] != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        raise RuntimeError(f"{contender.name} failed ({figures['status']}), see {log}:\n{tail}")
    output = last_json(done.stdout.decode())
    return Run(
        contender.name,
        number,
        seconds=float(output.get("seconds", figures["wall"])),
        wall=figures["wall"],
        cpu=figures["cpu"],
        peak_mb=figures["peak_mb"],
        rows=int(output["rows"]),
        output=output,
    )


def last_json(text: str) -> dict[str, Any]:
    """The JSON object on the last line that has one."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise ValueError(f"no JSON object in the output: {text[-500:]!r}")


@dataclass(frozen=True)
class Summary:
    """The medians of one contender, and how its throughput compares with ours."""

    contender: str
    seconds: float
    rate: float
    slowest: float
    fastest: float
    cpu: float
    peak_mb: float
    ratio: float


def summarize(runs: Sequence[Run]) -> list[Summary]:
    """Medians by contender; ratios are ours (the first contender) to theirs, above 1 is faster."""
    by_name: dict[str, list[Run]] = {}
    for run in runs:
        by_name.setdefault(run.contender, []).append(run)
    ours = median(run.rows / run.seconds for run in next(iter(by_name.values())))
    summaries = []
    for name, mine in by_name.items():
        rates = [run.rows / run.seconds for run in mine]
        summaries.append(
            Summary(
                name,
                seconds=median(run.seconds for run in mine),
                rate=median(rates),
                slowest=min(rates),
                fastest=max(rates),
                cpu=median(run.cpu for run in mine),
                peak_mb=median(run.peak_mb for run in mine),
                ratio=ours / median(rates),
            )
        )
    return summaries


def report(
    name: str, title: str, what: str, runs: Sequence[Run], results: Path = RESULTS
) -> list[Summary]:
    """Writes NAME.json, NAME.md and NAME.svg, and returns the summaries (ours first)."""
    summaries = summarize(runs)
    results.mkdir(parents=True, exist_ok=True)
    here = machine()
    document = {
        "title": title,
        "what": what,
        "machine": here,
        "summaries": [asdict(summary) for summary in summaries],
        "runs": [asdict(run) for run in runs],
    }
    (results / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    chart = bars(
        f"{title}: rows a second", [(s.contender, s.rate, s.slowest, s.fastest) for s in summaries]
    )
    (results / f"{name}.svg").write_text(chart)
    (results / f"{name}.md").write_text(_markdown(name, title, what, here, summaries, runs))
    return summaries


def machine() -> dict[str, object]:
    """What the benchmark runs on, and when."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def describe(machine: Mapping[str, object]) -> str:
    """The machine in words."""
    return (
        f"{machine['date']}, {machine['cores']} cores, {machine['memory_gb']} GB, Python "
        f"{machine['python']}, {machine['system']}"
    )


def _markdown(
    name: str,
    title: str,
    what: str,
    machine: Mapping[str, object],
    summaries: Sequence[Summary],
    runs: Sequence[Run],
) -> str:
    rounds = max(run.round for run in runs)
    ours = summaries[0].contender
    lines = [
        f"# {title}",
        "",
        what,
        "",
        f"{describe(machine)}; medians of {rounds} interleaved rounds.",
        "",
        f"![{title}]({name}.svg)",
        "",
        f"| | rows/s | slowest – fastest | seconds | CPU seconds | peak memory of a process | {ours} is |",
        "|---|---|---|---|---|---|---|",
    ]
    for s in summaries:
        ratio = "" if s.contender == ours else f"{s.ratio:.2f} × as fast"
        lines.append(
            f"| {s.contender} | {s.rate:,.0f} | {s.slowest:,.0f} – {s.fastest:,.0f} "
            f"| {s.seconds:.1f} | {s.cpu:.1f} | {s.peak_mb:,.0f} MB | {ratio} |"
        )
    lines += [
        "",
        "| round | contender | seconds | wall | CPU | rows |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.round} | {r.contender} | {r.seconds:.2f} | {r.wall:.2f} | {r.cpu:.2f} | {r.rows:,} |"
        for r in runs
    ]
    return "\n".join(lines) + "\n"
