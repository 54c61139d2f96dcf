"""The demo's generator keeps its rate, however long a batch takes."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from icestream.dev.clickstream import Clickstream


class Slow(Clickstream):
    """Sends nowhere; each batch takes a while."""

    interval = 0.02

    def __init__(self, rate: int, takes: float) -> None:
        super().__init__(cast(Any, None), "", "", rate)
        self.takes = takes
        self.batches = 0

    def send(self, count: int) -> None:
        time.sleep(self.takes)
        self.batches += 1
        self.sent += count


@pytest.mark.parametrize("takes", [0.0, 0.015, 0.05])
def test_events_are_sent_at_the_rate(takes: float) -> None:
    clicks = Slow(10_000, takes)
    began = time.monotonic()
    clicks.start()
    time.sleep(0.4)
    clicks.stop()
    passed = time.monotonic() - began
    assert clicks.batches > 3
    assert passed - 0.2 <= clicks.sent / clicks.rate <= passed
