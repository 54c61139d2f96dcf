import json
from collections import Counter
from datetime import datetime
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.nexmark import generator
from benchmarks.nexmark.generator import AUCTION, BID, CYCLE, PERSON, TOPICS

EVENTS = 20_000


@pytest.fixture(scope="module")
def events():
    return {kind: generator.events(kind, 0, EVENTS) for kind in TOPICS}


@pytest.mark.parametrize("kind", TOPICS)
def test_events_are_the_same_for_the_same_seed_however_they_are_cut(kind, events):
    whole = events[kind]
    cuts = [0, 7, 50, 1_234, EVENTS]
    parts = [generator.events(kind, *cut) for cut in pairwise(cuts)]
    assert sum(len(part) for part in parts) == len(whole)
    joined = [row for part in parts for row in part.to_pylist()]
    assert joined == whole.to_pylist()
    assert generator.events(kind, 0, 500, seed=2).to_pylist() != whole.slice(0, 500).to_pylist()


@pytest.mark.parametrize("count", [0, 1, 3, 4, 49, 50, 51, 1_234])
def test_one_person_three_auctions_and_forty_six_bids(count):
    found = {kind: len(generator.events(kind, 0, count)) for kind in TOPICS}
    assert found == generator.counts(count)
    assert sum(found.values()) == count
    assert generator.counts(CYCLE) == {PERSON: 1, AUCTION: 3, BID: 46}


def test_every_event_has_a_millisecond_of_its_own_and_there_are_two_days(events):
    times = np.sort(np.concatenate([events[kind]["dateTime"].to_numpy() for kind in TOPICS]))
    assert set(np.diff(times).astype("timedelta64[us]").astype(int)) == {1000}
    for kind in TOPICS:
        mine = events[kind]["dateTime"].to_numpy()
        assert (np.diff(mine) > np.timedelta64(0)).all()
    days = times.astype("datetime64[D]")
    assert [int((days == day).sum()) for day in np.unique(days)] == [3_000, EVENTS - 3_000]


def test_persons_and_auctions_are_numbered_without_gaps(events):
    for kind in (PERSON, AUCTION):
        ids = events[kind]["id"].to_numpy()
        assert (ids == 1000 + np.arange(len(ids))).all()


def share_of_most(values) -> float:
    return max(Counter(values).values()) / len(values)


def test_some_auctions_sellers_and_bidders_are_hot(events):
    bids, auctions = events[BID], events[AUCTION]
    auction = bids["auction"].to_numpy() - 1000
    bidder = bids["bidder"].to_numpy() - 1000
    seller = auctions["seller"].to_numpy() - 1000
    assert (auction % 100 == 0).mean() == pytest.approx(1 / 2, abs=0.02)
    assert (bidder % 100 == 1).mean() == pytest.approx(3 / 4, abs=0.02)
    assert (seller % 100 == 0).mean() == pytest.approx(3 / 4, abs=0.05)
    assert share_of_most(bidder.tolist()) > 0.1


def test_bids_name_auctions_of_about_their_time(events):
    bids = events[BID]
    auction = bids["auction"].to_numpy() - 1000
    place = (bids["dateTime"].to_numpy() - generator.START).astype("timedelta64[ms]").astype(int)
    newest = place // CYCLE * 3 + 2
    assert (auction >= 0).all()
    assert (auction <= newest + generator.LEAD).all()
    assert (auction >= newest - generator.AUCTIONS_IN_FLIGHT).all()
    assert (auction > newest).any(), "some bids come before their auction"


def test_prices_are_spread_over_six_orders_of_magnitude(events):
    price = events[BID]["price"].to_numpy()
    assert price.min() >= 100
    assert price.max() <= 100_000_000
    orders = Counter(np.log10(price).astype(int).tolist())
    for order in range(2, 8):
        assert orders[order] / len(price) == pytest.approx(1 / 6, abs=0.02)
    reserve = events[AUCTION]["reserve"].to_numpy()
    assert (reserve > events[AUCTION]["initialBid"].to_numpy()).all()


def test_auctions_end_after_as_many_others_have_begun(events):
    auctions = events[AUCTION]
    length = auctions["expires"].to_numpy() - auctions["dateTime"].to_numpy()
    millis = length.astype("timedelta64[ms]").astype(int)
    assert millis.min() >= 1
    assert millis.mean() == pytest.approx(100 * CYCLE / 3, rel=0.1)


def test_channels_have_addresses_and_most_an_id(events):
    bids = events[BID].to_pylist()
    hot = [bid for bid in bids if bid["channel"] in generator.HOT_CHANNELS]
    others = [bid for bid in bids if bid["channel"] not in generator.HOT_CHANNELS]
    assert len(hot) / len(bids) == pytest.approx(1 / 2, abs=0.02)
    assert not any("channel_id=" in bid["url"] for bid in hot)
    named = sum("&channel_id=" in bid["url"] for bid in others)
    assert named / len(others) == pytest.approx(0.9, abs=0.03)
    assert {bid["url"].count("/") for bid in bids} == {6}
    assert len({(bid["channel"], bid["url"]) for bid in bids}) == len({b["channel"] for b in bids})


@pytest.mark.parametrize(("kind", "size"), [(PERSON, 200), (AUCTION, 500), (BID, 100)])
def test_extra_fills_a_record_up_to_its_size(kind, size, events):
    table = events[kind]
    texts = {"person": ("name", "emailAddress", "creditCard", "city", "state")}
    texts |= {"auction": ("itemName", "description"), "bid": ()}
    fixed = {"person": 8, "auction": 48, "bid": 32}[kind]
    lengths = [pc.mean(pc.binary_length(table[name])).as_py() for name in (*texts[kind], "extra")]
    assert fixed + sum(lengths) == pytest.approx(size, rel=0.03)


@pytest.mark.parametrize("kind", TOPICS)
def test_partitions_share_the_records_and_these_are_the_rows(kind, events, tmp_path):
    count, partitions = 10_250, 2
    parts = [
        [text for block in generator.records(kind, count, 1, n, partitions) for text in block]
        for n in range(partitions)
    ]
    rows = pq.read_table(generator.write(tmp_path, count)[kind]).to_pylist()
    assert len(rows) == generator.counts(count)[kind]
    for number, part in enumerate(parts):
        assert [read(text) for text in part] == rows[number::partitions]
    assert rows[:100] == events[kind].slice(0, 100).to_pylist()


def read(text: bytes) -> dict:
    row = json.loads(text)
    for name in ("dateTime", "expires"):
        if name in row:
            row[name] = datetime.fromisoformat(row[name])
    return row


def test_the_side_input_has_a_text_for_every_key(tmp_path):
    lines = (generator.write_side_input(tmp_path) / "side_input.csv").read_text().splitlines()
    assert lines[:2] == ["key,value", "0,value-00000"]
    assert [int(line.split(",")[0]) for line in lines[1:]] == list(range(10_000))
    assert len({line.split(",")[1] for line in lines[1:]}) == 10_000
