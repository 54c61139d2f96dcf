"""The fault matrix: every pipeline against every fault. `python -m tests.faults.matrix --help`.

A cell starts a server, gives the pipeline work, injects the fault, gives it work again, and waits until all tables hold what
the oracle says. Outcomes are kept in `docs/fault-matrix.json` with their dates; `docs/guarantees.md` shows them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from icestream.dev.broker import Broker
from tests.faults.injections import FAULTS, Fault, second_bootstrap
from tests.faults.pipelines import PIPELINES
from tests.faults.world import World, rest_catalog
from tests.jvm import choose_quick_compiler

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "fault-matrix.json"
PART = 12
"""CI runs one cell in so many."""

Cell = tuple[str, str]


def cells() -> list[Cell]:
    """All cells: (pipeline, fault)."""
    return [(pipeline, fault) for pipeline in PIPELINES for fault in FAULTS]


def choose_part(among: Sequence[Cell], seed: int, part: int = PART) -> list[Cell]:
    """A random part of some cells."""
    return sorted(random.Random(seed).sample(among, -(-len(among) // part)))


@contextmanager
def open_world(folder: Path, fault: Fault, shared: Broker | None) -> Iterator[World]:
    """The surroundings that a fault needs."""
    with ExitStack() as stack:
        broker = shared
        if broker is None or fault.own_broker:
            broker = stack.enter_context(Broker(folder / "kafka"))
        world = World(folder, broker, shim=fault.shim)
        stack.callback(world.close)
        if fault.name == "broker at a new address":
            world.bootstrap = second_bootstrap(broker)
        if fault.rest:
            stack.enter_context(rest_catalog(world))
        yield world


def run_cell(cell: Cell, folder: Path, seed: int, shared: Broker | None = None) -> None:
    """Run one cell; an AssertionError says what is wrong."""
    pipeline_name, fault_name = cell
    fault = FAULTS[fault_name]
    chosen = random.Random(seed)
    with open_world(folder, fault, shared) as world:
        world.server.begin()
        pipeline = PIPELINES[pipeline_name](world, seed)
        pipeline.create()
        pipeline.work()
        world.await_success(pipeline.check)
        fault.inject(world, pipeline, chosen)
        world.server.ensure()
        pipeline.work()
        world.await_success(pipeline.check)


def read_results() -> dict[str, dict[str, str]]:
    """Outcomes by "pipeline / fault"."""
    return dict(json.loads(RESULTS.read_text())["cells"]) if RESULTS.exists() else {}


def passed_cells() -> list[Cell]:
    """The cells whose newest kept outcome is a pass."""
    kept = read_results()
    return [c for c in cells() if kept.get(" / ".join(c), {}).get("outcome") == "pass"]


def keep_result(cell: Cell, outcome: str, seed: int) -> None:
    """Write an outcome with its date; `python docs/generate.py` shows it in docs/guarantees.md."""
    results = read_results()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    results[" / ".join(cell)] = {
        "outcome": outcome, "date": date, "commit": commit, "seed": str(seed),
    }  # fmt: skip
    known = {" / ".join(c) for c in cells()}
    kept = {
        "pipelines": list(PIPELINES),
        "faults": list(FAULTS),
        "cells": {k: v for k, v in sorted(results.items()) if k in known},
    }
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cells and keep their outcomes."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.matrix", description=__doc__)
    parser.add_argument("--pipeline", action="append", choices=list(PIPELINES))
    parser.add_argument("--fault", action="append", choices=list(FAULTS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--part", type=int, help="run a random cell in so many")
    parser.add_argument("--missing", action="store_true", help="only cells without a pass")
    parser.add_argument("--keep", action="store_true", help="write docs/fault-matrix.json")
    parser.add_argument("--list", action="store_true", help="print the cells and end")
    options = parser.parse_args(arguments)
    choose_quick_compiler()
    if options.keep:  # an outcome that is kept stands for all of them
        os.environ["FAULT_POINTS"] = "all"
    chosen = choose_part(cells(), options.seed, options.part) if options.part else cells()
    chosen = [
        (p, f) for p, f in chosen
        if p in (options.pipeline or PIPELINES) and f in (options.fault or FAULTS)
    ]  # fmt: skip
    if options.missing:
        passed = set(passed_cells())
        chosen = [c for c in chosen if c not in passed]
    if options.list:
        print("\n".join(" / ".join(c) for c in chosen))
        return 0
    print(f"seed {options.seed}, {len(chosen)} cells", flush=True)
    return run_cells(chosen, options.seed, keep=options.keep)


def run_cells(chosen: Sequence[Cell], seed: int, *, keep: bool) -> int:
    """Run cells one after the other; the exit code says whether all passed."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="icestream-faults-") as name:
        folder = Path(name)
        with Broker(folder / "shared") as shared:
            for number, cell in enumerate(chosen):
                began = time.monotonic()
                try:
                    run_cell(cell, folder / f"cell{number}", seed, shared)
                    outcome = "pass"
                except Exception:
                    traceback.print_exc()
                    outcome = "fail"
                    failed += 1
                seconds = time.monotonic() - began
                print(f"{outcome}  {' / '.join(cell)}  {seconds:.0f} s", flush=True)
                if keep:
                    keep_result(cell, outcome, seed)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
