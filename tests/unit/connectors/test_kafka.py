"""Kafka positions, without a broker."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.catalog.show import like
from icestream.connectors import patterns
from icestream.connectors.kafka import KafkaSource
from icestream.connectors.kafka_positions import Extent, Partition, Positions

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


# -- what is there now, against a model: a dictionary of the records that a cluster keeps ------------

PARTITIONS = st.sampled_from([("t", 0), ("t", 1), ("u", 0)])
EXTENTS = st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 50), st.integers(0, 50)))


def extent(held: dict[Partition, tuple[int, int]], **ids: str) -> Extent:
    first = {p: low for p, (low, _) in held.items()}
    return Extent(first, {p: low + n for p, (low, n) in held.items()}, ids)


@given(EXTENTS, EXTENTS, EXTENTS)
def test_partitions_found_later_are_read_from_the_offset_recorded_then(one, two, three) -> None:
    before = extent(one).skip_loss(Positions({p: low for p, (low, _) in one.items()}))
    found = extent({**two, **one}).end(before)
    later = extent({**three, **two, **one}).end(found)
    for partition in found.next:
        begin = one.get(partition, two.get(partition))[0]
        assert found.start_of(partition, before) == begin
        # whoever still stands at `before` begins at the same record, whatever retention removed since
        assert later.start_of(partition, before) == begin
    assert sum(found.count_since(before).values()) == sum(n for _, n in {**two, **one}.values())
    again = Positions.parse(json.loads(json.dumps(later.to_offset())))
    assert again == later


@given(EXTENTS, EXTENTS)
def test_a_reset_position_has_no_loss_and_rereads_nothing_that_is_kept(read, held) -> None:
    since = Positions({p: low for p, (low, _) in read.items()}, ids={"t": "A", "u": "B"})
    now = extent(held, t="A", u="B")
    reset = now.skip_loss(since)
    assert now.find_loss(reset) is None
    for partition, start in since.next.items():
        low, n = held.get(partition, (0, -1))
        if low <= start <= low + n:
            assert reset.next[partition] == start
    assert (now.find_loss(since) is None) == (reset.next == since.next)


def test_a_topic_made_anew_is_recognized_though_its_offsets_fit() -> None:
    since = Positions({("t", 0): 5}, ids={"t": "A"})
    assert extent({("t", 0): (0, 9)}, t="A").find_loss(since) is None
    now = extent({("t", 0): (0, 9)}, t="B")
    assert now.find_loss(since) == "topic t was deleted and created again"
    reset = now.skip_loss(since)
    assert reset == Positions({("t", 0): 0}, ids={"t": "B"})
    assert now.find_loss(reset) is None


def test_positions_of_earlier_versions_take_up_the_ids() -> None:
    since = Positions.parse({"t": {"0": 5}})
    now = extent({("t", 0): (0, 9)}, t="A")
    assert now.find_loss(since) is None
    assert now.end(since).to_offset() == {"t": {"0": 9}, "#ids": {"t": "A"}}


def test_patterns_of_topics_take_linear_time() -> None:
    """Python's own regular expressions would take years."""
    names = ["a" * 40 + "!", "aaa", "b", "aaab"]
    assert patterns.matching("(a+)+", names) == ["aaa"]
    assert patterns.matching("(a|aa)+b?", names) == ["aaa", "aaab"]
    assert not like("a" * 200, "%a" * 100 + "b")


def test_a_pattern_of_topics_that_is_none() -> None:
    with pytest.raises(ValueError, match="invalid escape"):
        patterns.check(r"(a)\1")
