"""Kafka positions, without a broker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from icestream.connectors.kafka import KafkaSource

SOURCE = KafkaSource.__new__(KafkaSource)
OFFSETS = st.dictionaries(st.integers(0, 12), st.integers(0, 3_000_000), min_size=1)


def offset(positions: dict[int, int]) -> dict[str, dict[str, int]]:
    return {"t": {str(p): o for p, o in positions.items()}}


@given(OFFSETS, OFFSETS, st.integers(1, 2_000_000))
def test_a_range_that_was_cut_is_not_cut_again(start, lag, limit) -> None:
    since = offset(start)
    end = offset(
        {p: start.get(p, 0) + n for p, n in lag.items()}
        | {p: o for p, o in start.items() if p not in lag}
    )
    cut = SOURCE.advance(since, end, limit)
    assert SOURCE.advance(since, cut, limit) == cut
    for partition, at in cut["t"].items():
        assert since["t"].get(partition, 0) <= at <= end["t"][partition]
    moved = sum(cut["t"].values()) - sum(since["t"].get(p, 0) for p in cut["t"])
    assert moved <= limit + len(cut["t"])
    assert moved > 0 or not sum(lag.values())


def test_nothing_goes_backwards() -> None:
    assert SOURCE.advance(offset({0: 1000}), offset({0: 950}), None) == offset({0: 1000})
