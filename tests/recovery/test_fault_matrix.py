"""A random part of the fault matrix. `make faults` runs all of it; FAULT_SEED=… repeats a run."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from icestream.dev.broker import Broker
from tests.faults.matrix import Cell, choose_part, passed_cells, run_cell

pytestmark = [pytest.mark.spark, pytest.mark.services]

SEED = int(os.environ.get("FAULT_SEED") or random.SystemRandom().randrange(2**32))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "cell", choose_part(passed_cells(), SEED), ids=lambda cell: f"{'/'.join(cell)}-{SEED}"
)
def test_cell(cell: Cell, tmp_path: Path, kafka: Broker) -> None:
    run_cell(cell, tmp_path, SEED, kafka)
