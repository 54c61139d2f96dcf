from dataclasses import replace

from icestream.lake.pins import SnapshotPins
from icestream.lake.stamp import STAMP, Stamp
from icestream.lake.table import Snapshot
from icestream.maintenance.policy import MEGABYTE, TIERS, tier_to_merge, to_expire


def history(length: int, stamps: dict[int, str] | None = None) -> list[Snapshot]:
    """Snapshots `length` … 1, newest first; `stamps` names pipelines by snapshot id."""
    marks = {i: Stamp(p, 1, 1, i, i).to_json() for i, p in (stamps or {}).items()}
    return [
        Snapshot(i, i - 1 or None, "append", {STAMP: marks[i]} if i in marks else {})
        for i in range(length, 0, -1)
    ]


def test_a_short_history_is_left_alone() -> None:
    assert to_expire(history(60), set(), 50) == []


def test_the_newest_are_kept() -> None:
    assert to_expire(history(100), set(), 50) == list(range(50, 0, -1))


def test_everything_back_to_the_parent_of_the_oldest_needed_is_kept() -> None:
    expired = to_expire(history(100), {20}, 50)
    assert max(expired) == 18


def test_the_newest_stamp_of_every_pipeline_is_kept() -> None:
    expired = to_expire(history(100, {3: "a", 2: "a", 1: "b", 90: "c"}), set(), 50)
    assert 3 not in expired
    assert 1 not in expired
    assert 2 in expired


def test_tiers() -> None:
    tiny, small = 10_000, 2 * MEGABYTE
    assert tier_to_merge([tiny] * 31, 32) is None
    assert tier_to_merge([tiny] * 32, 32) is TIERS[0]
    assert tier_to_merge([small] * 15, 32) is None
    assert tier_to_merge([small] * 16, 32) is TIERS[1]
    assert tier_to_merge([200 * MEGABYTE] * 500, 32) is None


def test_what_a_subscription_may_want_is_kept() -> None:
    timed = [
        replace(s, summary={STAMP: Stamp("p", 1, 1, s.id, s.id * 1_000).to_json()})
        for s in history(100)
    ]
    assert min({s.id for s in timed} - set(to_expire(timed, set(), 10))) == 91
    kept = {s.id for s in timed} - set(to_expire(timed, set(), 10, since=30_000))
    assert min(kept) == 29  # the one before is where reading begins


def test_pins_last_as_long_as_their_reader() -> None:
    class Reader:
        pass

    pins, reader = SnapshotPins(), Reader()
    pin = pins.begin()
    assert pins.snapshots() is None  # nothing may go before it has chosen
    pin.add([1, None, 2])
    pin.tie_to(reader)
    other = pins.begin()
    other.add([2, 3])
    assert pins.snapshots() == {1, 2, 3}
    del reader
    assert pins.snapshots() == {2, 3}
    other.release()
    other.release()
    assert pins.snapshots() == set()
