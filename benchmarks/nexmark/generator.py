"""Nexmark's events: persons, auctions and bids in the ratio 1:3:46, the same for the same seed.

An event depends only on its number and the seed, so any slice can be made again, in any order, by
any process; fewer events are a prefix of more. Names and distributions are Nexmark's: half of the
bids go to one hot auction in a hundred, three quarters come from one hot bidder in a hundred, three
quarters of the auctions from a hot seller; prices are spread evenly over six orders of magnitude;
bids name auctions, and auctions name sellers, that may come a little later. Every event has a
millisecond of its own, so that no query has to choose between equal times, and midnight passes
after three seconds, so that there are two days at any size.

    python -m benchmarks.nexmark.generator BOOTSTRAP EVENTS PARTITION PARTITIONS SEED     sends a share of the events
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import run
from sys import executable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Producer

from benchmarks.events import mix
from tests.services.kafka import create_topic

PERSON, AUCTION, BID = "person", "auction", "bid"
TOPICS = {PERSON: "nexmark-person", AUCTION: "nexmark-auction", BID: "nexmark-bid"}
PARTITIONS = 2

PROPORTIONS = {PERSON: 1, AUCTION: 3, BID: 46}
CYCLE = sum(PROPORTIONS.values())
START = np.datetime64("2026-07-31T23:59:57.000", "ms")
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
ACTIVE_PEOPLE, AUCTIONS_IN_FLIGHT, LEAD = 1000, 100, 10
HOT = 100
"""One in so many auctions, sellers and bidders is hot."""
SIDE_ROWS = 10_000

STATES = np.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
# fmt: off
CITIES = np.array([
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland",
    "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
])
# fmt: on
FIRST_NAMES = np.array(
    ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
)
LAST_NAMES = np.array(
    ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
)
HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
CHANNELS = 10_000
BLOCK = 200 * CYCLE
"""Events that are made at a time: few enough for the processor's caches."""
POOL = 1 << 20
LONGEST = 1_000
"""No text of an event has more letters."""
QUEUED = 200_000
"""Records that wait to be sent, at most."""

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Noise:
    """Random numbers by event number: each `draw` of the same events gives another, repeatable one."""

    numbers: Longs
    seed: int

    def draw(self, salt: int) -> npt.NDArray[np.uint64]:
        """64 random bits an event."""
        return mix(
            self.numbers.astype(np.uint64) * np.uint64(64) + np.uint64(salt + (self.seed << 44))
        )

    def below(self, limit: int | Longs, salt: int) -> Longs:
        """A number from 0 to limit − 1."""
        found: Longs = ((self.draw(salt) >> np.uint64(1)).astype(np.int64)) % limit
        return found

    def price(self, salt: int) -> Longs:
        """From 100 to 100 million, its logarithm evenly spread."""
        even = (self.draw(salt) >> np.uint64(11)).astype(np.float64) / 2**53
        found: Longs = np.round(10 ** (even * 6) * 100).astype(np.int64)
        return found

    def text(self, pool: npt.NDArray[np.uint8], lengths: Longs, salt: int) -> pa.StringArray:
        """A piece of the pool for each event."""
        starts = self.below(len(pool) - LONGEST, salt)
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        places = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)
        buffers = pa.py_buffer(ends), pa.py_buffer(pool[places])
        return pa.StringArray.from_buffers(len(lengths), *buffers)

    def word(self, pool: npt.NDArray[np.uint8], longest: int, salt: int) -> pa.StringArray:
        """A piece of 3 to longest − 1 letters, without the blanks around it."""
        lengths = 3 + self.below(longest - 3, salt)
        return pc.ascii_trim_whitespace(self.text(pool, lengths, salt + 1))

    def extra(self, filled: Longs, average: int, salt: int) -> pa.StringArray:
        """What fills a record up to its average size, give or take a fifth."""
        missing = np.maximum(average - filled, 5)
        delta = missing // 5
        return self.text(
            letters(self.seed), missing - delta + self.below(2 * delta, salt), salt + 1
        )


@cache
def letters(seed: int) -> npt.NDArray[np.uint8]:
    """A long text of letters."""
    random = np.random.default_rng(seed)
    return random.integers(ord("a"), ord("z") + 1, POOL).astype(np.uint8)


@cache
def words(seed: int) -> npt.NDArray[np.uint8]:
    """The same with a blank after every dozen of letters, on average."""
    blanks = np.random.default_rng(seed + 1).integers(0, 13, POOL) == 0
    return np.where(blanks, np.uint8(ord(" ")), letters(seed))


@cache
def channels(seed: int) -> tuple[pa.StringArray, pa.StringArray]:
    """Names and addresses of all channels, the hot ones first; nine of ten others have an id."""
    random = np.random.default_rng(seed + 2)
    names = HOT_CHANNELS + [f"channel-{number}" for number in range(CHANNELS)]
    parts = random.choice(list("abcdefghijklmnopqrstuvwxyz_"), (len(names), 3, 4))
    ids = random.integers(0, 2**31, len(names)).tolist()
    named = (random.integers(0, 10, len(names)) > 0).tolist()
    urls = []
    for number, folders in enumerate(parts):
        path = "/".join("".join(folder) for folder in folders)
        url = f"https://www.nexmark.com/{path}/item.htm?query=1"
        if number >= len(HOT_CHANNELS) and named[number]:
            url += f"&channel_id={ids[number]}"
        urls.append(url)
    return pa.array(names), pa.array(urls)


# -- the three kinds -------------------------------------------------------------------------------


def events(
    kind: str, first: int, last: int, seed: int = 1, start: int = 0, step: int = 1
) -> pa.Table:
    """Those of the events first to last − 1 that are of a kind, in order of time.

    With a step, of all events of the kind only the ones start, start + step, …
    """
    makers = {PERSON: _persons, AUCTION: _auctions, BID: _bids}
    share, before = PROPORTIONS[kind], 0
    for other in list(makers)[: list(makers).index(kind)]:
        before += PROPORTIONS[other]
    numbers = np.arange(first, last)
    place = numbers % CYCLE - before
    ordinal = numbers // CYCLE * share + place
    chosen = (place >= 0) & (place < share) & (ordinal % step == start)
    return makers[kind](numbers[chosen], seed)


def counts(count: int) -> dict[str, int]:
    """How many of the first events are of each kind."""
    whole, rest = divmod(count, CYCLE)
    found, before = {}, 0
    for kind, share in PROPORTIONS.items():
        found[kind] = whole * share + min(max(rest - before, 0), share)
        before += share
    return found


def _persons(numbers: Longs, seed: int) -> pa.Table:
    noise = Noise(numbers, seed)
    first = FIRST_NAMES[noise.below(len(FIRST_NAMES), 0)]
    last = LAST_NAMES[noise.below(len(LAST_NAMES), 1)]
    name = pc.binary_join_element_wise(pa.array(first), pa.array(last), " ")
    pool = letters(seed)
    mail = pc.binary_join_element_wise(
        noise.word(pool, 7, 2), "@", noise.word(pool, 5, 4), ".com", ""
    )
    digits = [pa.array(noise.below(10_000, 6 + n)).cast(pa.string()) for n in range(4)]
    card = pc.binary_join_element_wise(*(pc.utf8_lpad(each, 4, "0") for each in digits), " ")
    city, state = CITIES[noise.below(len(CITIES), 10)], STATES[noise.below(len(STATES), 11)]
    filled = 8 + _lengths(name) + _lengths(mail) + 19 + np.char.str_len(city) + 2
    return pa.table(
        {
            "id": FIRST_ID + numbers // CYCLE,
            "name": name,
            "emailAddress": mail,
            "creditCard": card,
            "city": pa.array(city),
            "state": pa.array(state),
            "dateTime": _times(numbers),
            "extra": noise.extra(filled, 200, 12),
        }
    )


def _auctions(numbers: Longs, seed: int) -> pa.Table:
    noise = Noise(numbers, seed)
    person = numbers // CYCLE
    hot = noise.below(4, 0) > 0
    seller = np.where(hot, person // HOT * HOT, _active(person, noise, 1))
    initial = noise.price(3)
    # As long as it takes, on average, to open as many auctions as are in flight.
    horizon = AUCTIONS_IN_FLIGHT * CYCLE // PROPORTIONS[AUCTION]
    open_for = 1 + noise.below(2 * horizon, 5)
    name, description = noise.word(words(seed), 20, 6), noise.word(words(seed), 100, 8)
    filled = 48 + _lengths(name) + _lengths(description)
    return pa.table(
        {
            "id": FIRST_ID + _last_auction(numbers),
            "itemName": name,
            "description": description,
            "initialBid": initial,
            "reserve": initial + noise.price(4),
            "dateTime": _times(numbers),
            "expires": _times(numbers + open_for),
            "seller": FIRST_ID + seller,
            "category": FIRST_CATEGORY + noise.below(CATEGORIES, 2),
            "extra": noise.extra(filled, 500, 10),
        }
    )


def _bids(numbers: Longs, seed: int) -> pa.Table:
    noise = Noise(numbers, seed)
    newest, person = _last_auction(numbers), numbers // CYCLE
    oldest = np.maximum(newest - AUCTIONS_IN_FLIGHT, 0)
    any_auction = oldest + noise.below(newest - oldest + 1 + LEAD, 1)
    auction = np.where(noise.below(2, 0) > 0, newest // HOT * HOT, any_auction)
    # The second of a hundred, so that hot bidders are not the hot sellers.
    hot = noise.below(4, 2) > 0
    bidder = np.where(hot, person // HOT * HOT + 1, _active(person, noise, 3))
    known = len(HOT_CHANNELS)
    through = np.where(
        noise.below(2, 4) > 0, noise.below(known, 5), known + noise.below(CHANNELS, 6)
    )
    names, urls = channels(seed)
    return pa.table(
        {
            "auction": FIRST_ID + auction,
            "bidder": FIRST_ID + bidder,
            "price": noise.price(7),
            "channel": names.take(pa.array(through)),
            "url": urls.take(pa.array(through)),
            "dateTime": _times(numbers),
            "extra": noise.extra(np.full(len(numbers), 32), 100, 8),
        }
    )


def _last_auction(numbers: Longs) -> Longs:
    """The auction that is made by the event, or the newest one before it."""
    share = PROPORTIONS[AUCTION]
    place = np.minimum(numbers % CYCLE - PROPORTIONS[PERSON], share - 1)
    return numbers // CYCLE * share + place


def _active(person: Longs, noise: Noise, salt: int) -> Longs:
    """One of those who came last, or one who comes soon."""
    active = np.minimum(person + 1, ACTIVE_PEOPLE)
    return person + 1 - active + noise.below(active + LEAD, salt)


def _times(numbers: Longs) -> pa.Array:
    """When events happen: a millisecond each."""
    return pa.array(START + numbers.astype("timedelta64[ms]")).cast(pa.timestamp("us"))


def _lengths(texts: pa.StringArray) -> Longs:
    found: Longs = pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


# -- what becomes of them --------------------------------------------------------------------------


def texts(table: pa.Table) -> pa.Array:
    """The rows as JSON objects. No text of theirs needs an escape."""
    parts: list[pa.Array | str] = []
    for number, name in enumerate(table.column_names):
        column = table[name].combine_chunks()
        key = f'{"," if number else "{"}"{name}":'
        if pa.types.is_integer(column.type):
            parts += [key, column.cast(pa.string())]
            continue
        if pa.types.is_timestamp(column.type):
            column = pc.replace_substring(
                column.cast(pa.timestamp("ms")).cast(pa.string()), " ", "T"
            )
        parts += [f'{key}"', column, '"']
    return pc.binary_join_element_wise(*parts, "}", "")


def blocks(
    kind: str, count: int, seed: int = 1, start: int = 0, step: int = 1
) -> Iterator[pa.Table]:
    """The same of the first events, some at a time."""
    for first in range(0, count, BLOCK):
        yield events(kind, first, min(first + BLOCK, count), seed, start, step)


def write(folder: Path, count: int, seed: int = 1) -> dict[str, Path]:
    """The events as Parquet files, one a kind."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {kind: folder / f"{kind}.parquet" for kind in TOPICS}
    for kind, path in paths.items():
        with pq.ParquetWriter(path, events(kind, 0, CYCLE, seed).schema) as file:
            for block in blocks(kind, count, seed):
                file.write_table(block)
    return paths


def write_side_input(folder: Path) -> Path:
    """The bounded side input of query 13, as a CSV file in a folder of its own: a text for each key."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{key},value-{key * 7919 % SIDE_ROWS:05d}\n" for key in range(SIDE_ROWS))
    (folder / "side_input.csv").write_text(f"key,value\n{lines}")
    return folder


def send(bootstrap: str, count: int, seed: int = 1, partitions: int = PARTITIONS) -> None:
    """Makes the topics and sends all events, one process a partition, each in order of time."""
    for topic in TOPICS.values():
        create_topic(bootstrap, topic, partitions)

    def share(number: int) -> None:
        words = (bootstrap, count, number, partitions, seed)
        run([executable, "-m", "benchmarks.nexmark.generator", *map(str, words)], check=True)

    with ThreadPoolExecutor(partitions) as pool:
        list(pool.map(share, range(partitions)))


def records(
    kind: str, count: int, seed: int, partition: int, partitions: int
) -> Iterator[list[bytes]]:
    """The events of a kind that go to a partition, some at a time: every second one, if there are two."""
    for table in blocks(kind, count, seed, partition, partitions):
        yield texts(table).cast(pa.binary()).to_pylist()


def main() -> None:
    parser = argparse.ArgumentParser(description="Send one partition's share of the events.")
    parser.add_argument("bootstrap")
    for name in ("events", "partition", "partitions", "seed"):
        parser.add_argument(name, type=int)
    args = parser.parse_args()
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": args.bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 2 * QUEUED,
            "queue.buffering.max.kbytes": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(error),
            "log_level": 0,
        }
    )
    for kind, topic in TOPICS.items():
        for texts in records(kind, args.events, args.seed, args.partition, args.partitions):
            messages = [{"value": text} for text in texts]
            queued = producer.produce_batch(topic, messages, partition=args.partition)
            assert queued == len(messages), messages
            producer.poll(0)
            while len(producer) > QUEUED:
                producer.poll(0.01)
    left = producer.flush(60)
    assert not failures, failures[0]
    assert left == 0, f"{left} records were not delivered"


if __name__ == "__main__":
    main()
