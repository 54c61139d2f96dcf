import json

from icestream.lake.position import Position, Range, Ranges
from icestream.lake.stamp import ObjectAt, Record, Stamp


def test_a_stamp_survives_its_text() -> None:
    stamp = Stamp(
        "p",
        2,
        3,
        4,
        5,
        Ranges({"s#1": Range({"t": {"0": 1}}, {"t": {"0": 9}})}),
        {"s#1": {"t": {"0": 9}}},
        8,
    )
    assert Stamp.from_json(stamp.to_json()) == stamp


def test_a_record_survives_its_text() -> None:
    record = Record(
        "p", 1, 2, 3, 4,
        sources={"s#1": {"t": {"0": 9}}},
        objects={"k#2": ObjectAt(3, "lake.a.b", "u", 12345678901234567, Position({"s#1": {"t": {"0": 5}}}))},
        counters={"k#2": 7},
    )  # fmt: skip
    assert Record.from_json(record.to_json()) == record


def test_an_object_stands_where_the_record_does_unless_it_is_behind() -> None:
    record = Record(
        "p", 1, 1, 1, 1,
        sources={"a#1": {"n": 5}, "b#2": {"n": 6}},
        objects={"k#3": ObjectAt(1, position=Position({"a#1": {"n": 2}}))},
    )  # fmt: skip
    assert record.offset("k#3", "a#1") == {"n": 2}
    assert record.offset("k#3", "b#2") == {"n": 6}


SINK = {"a#1": {"n": 2}, "@t#4": {"snapshot": None}}
MARK = {"mark": 7, "inputs": {"a#1": 7}, "parts": {"a#1": {"0": 7}}}
POSITION = {
    "a#1": {"n": 2},
    "@t#4": {"snapshot": 12},
    ">k#5": SINK,
    "!begun": {"begun": True},
    "!clock": {"time": 3},
    "!mark": MARK,
}
"""A position as homes have it on disk."""


def test_positions_of_homes_that_are_there_can_be_read() -> None:
    position = Position.decode(POSITION)
    assert position.feeds == {"a#1": {"n": 2}}
    assert position.tables == {"t#4": {"snapshot": 12}}
    assert (position.begun, position.clock, position.mark) == ({"begun": True}, {"time": 3}, MARK)
    assert position.sinks == {"k#5": Position({"a#1": {"n": 2}}, {"t#4": {"snapshot": None}})}
    assert position.encode() == POSITION


def test_stamps_of_homes_that_are_there_can_be_read() -> None:
    ranges = {key: {"start": offset, "end": offset} for key, offset in POSITION.items()}
    raw = {
        "pipeline": "p", "incarnation": 1, "plan": 2, "epoch": 3, "time": 4, "ranges": ranges,
        "cut": {"a#1": {"n": 2}}, "rows": 5, "fence": False, "log": 6,
    }  # fmt: skip
    stamp = Stamp.from_json(json.dumps(raw))
    assert stamp.ranges.empty
    assert stamp.ranges.start == stamp.ranges.end == Position.decode(POSITION)
    assert json.loads(stamp.to_json()) == raw


def test_records_of_homes_that_are_there_can_be_read() -> None:
    at = {"epoch": 1, "table": "lake.a.b", "uuid": "u", "snapshot": 5, "position": POSITION}
    level = {**at, "position": None}
    raw = {
        "pipeline": "p", "incarnation": 1, "plan": 2, "epoch": 3, "time": 4, "counters": {"v#6": 8},
        "sources": {"a#1": {"n": 9}}, "objects": {"v#6": at, "w#7": level},
    }  # fmt: skip
    record = Record.from_json(json.dumps(raw))
    assert record.objects["w#7"].position == Position()
    assert json.loads(record.to_json()) == raw


def test_an_object_is_behind_in_feeds_where_the_record_is_further() -> None:
    position = Position.decode(POSITION)
    assert position.behind({"a#1": {"n": 9}}) == position
    assert position.lags({"a#1": {"n": 9}})
    behind = position.behind({"a#1": {"n": 2}})
    assert (behind.feeds, behind.sinks) == ({}, position.sinks)
    assert not behind.lags({"a#1": {"n": 2}})
    assert behind.lags({"a#1": {"n": 3}})  # the sink is
    assert position.offsets_in("a#1") == [{"n": 2}, {"n": 2}]
    moved = position.move_feed("a#1", lambda offset: {"n": 0})
    assert moved.offsets_in("a#1") == [{"n": 0}, {"n": 0}]
    assert moved.tables == position.tables


def test_a_commit_began_where_the_object_stood() -> None:
    position, sources = Position.decode(POSITION), {"a#1": {"n": 9}, "b#2": {"n": 1}}
    assert position.holds(position, sources)
    assert position.holds(Position({"b#2": {"n": 1}}), sources)
    assert position.holds(Position(sinks={"dropped#9": Position({"a#1": {}})}), sources)
    assert not position.holds(Position({"a#1": {"n": 9}}), sources)
    assert not position.holds(Position(tables={"t#4": {"snapshot": 1}}), sources)
    assert not position.holds(Position(begun={"begun": False}), sources)
    assert not position.holds(Position(sinks={"k#5": Position()}), sources)
