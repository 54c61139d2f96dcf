from icestream.lake.stamp import ObjectAt, Range, Record, Stamp


def test_a_stamp_survives_its_text() -> None:
    stamp = Stamp(
        "p",
        2,
        3,
        4,
        5,
        {"s#1": Range({"t": {"0": 1}}, {"t": {"0": 9}})},
        {"s#1": {"t": {"0": 9}}},
        8,
    )
    assert Stamp.from_json(stamp.to_json()) == stamp


def test_a_record_survives_its_text() -> None:
    record = Record(
        "p", 1, 2, 3, 4,
        sources={"s#1": {"t": {"0": 9}}},
        objects={"k#2": ObjectAt(3, "lake.a.b", "u", 12345678901234567, {"s#1": {"t": {"0": 5}}})},
        counters={"k#2": 7},
    )  # fmt: skip
    assert Record.from_json(record.to_json()) == record


def test_an_object_stands_where_the_record_does_unless_it_is_behind() -> None:
    record = Record(
        "p", 1, 1, 1, 1,
        sources={"a#1": {"n": 5}, "b#2": {"n": 6}},
        objects={"k#3": ObjectAt(1, position={"a#1": {"n": 2}})},
    )  # fmt: skip
    assert record.position("k#3", "a#1") == {"n": 2}
    assert record.position("k#3", "b#2") == {"n": 6}
