"""A run of the folder takes a random few of the crash tests; FAULT_POINTS=all (`make crashes`) takes all of them.

Each of them starts many processes. The fault matrix kills the same pipelines at the same points, and a random part of it runs
beside them. A test that is named by its file always runs.
"""

from __future__ import annotations

import random

import pytest

from tests.recovery.points import EVERY
from tests.seeds import draw_seed

CRASHES = ("test_crash", "test_live_ddl")
COUNT = 3
"""Crash tests of a run."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    crashes = [item for item in items if item.path.name.startswith(CRASHES)]
    if EVERY or len(crashes) <= COUNT or any(".py" in argument for argument in config.args):
        return
    chosen = random.Random(draw_seed("crash tests")).sample(crashes, COUNT)
    left_out = [item for item in crashes if item not in chosen]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
