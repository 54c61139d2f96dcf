"""A random part of the fault matrix. `make faults` runs all of it; SEED=… repeats a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from icestream.dev.broker import Broker
from icestream.faults import POINTS
from tests.faults.matrix import Cell, cells, choose_part, run_cell
from tests.faults.pipelines import PIPELINES
from tests.seeds import draw_seed

pytestmark = [pytest.mark.spark, pytest.mark.services]

SEED = draw_seed("fault matrix")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "cell", choose_part(cells(), SEED), ids=lambda cell: f"{'/'.join(cell)}-{SEED}"
)
def test_cell(cell: Cell, tmp_path: Path, kafka: Broker) -> None:
    run_cell(cell, tmp_path, SEED, kafka)


def test_every_fault_point_belongs_to_a_pipeline() -> None:
    assert {point for kind in PIPELINES.values() for point in kind.points} == set(POINTS)
