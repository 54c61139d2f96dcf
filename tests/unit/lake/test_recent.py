"""What is kept in memory is bounded by bytes, and the oldest goes first."""

from __future__ import annotations

from icestream.lake.recent import Recent


def test_the_oldest_go_when_it_is_full() -> None:
    recent: Recent[str, int] = Recent(10)
    recent.keep("a", 1, 4)
    recent.keep("b", 2, 4)
    assert recent.get("a") == 1
    recent.keep("c", 3, 4)
    assert recent.get("b") is None, "it was not asked for since"
    assert (recent.get("a"), recent.get("c")) == (1, 3)


def test_a_value_is_replaced_and_one_that_is_too_large_is_not_kept() -> None:
    recent: Recent[str, int] = Recent(10)
    for value in range(20):
        recent.keep("a", value, 6)
    assert recent.get("a") == 19
    recent.keep("b", 1, 11)
    assert recent.get("b") is None
    recent.keep("c", 2, 10)
    assert recent.get("c") == 2
