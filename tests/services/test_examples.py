"""The clickstream example with a real broker, as a process of its own; what it writes is read by others."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.engine import MEMORY, column, duckdb_count, icestream, lake_table, status

pytestmark = [pytest.mark.spark, pytest.mark.services]

SCRIPT = Path(__file__).parents[2] / "examples" / "clickstream" / "pipeline.sql"
EVENTS = 2000
ACTIONS = ("view", "click", "heartbeat", "scroll")


def event(number: int) -> bytes:
    page = f"https://shop.example/{'docs' if number % 2 else 'blog'}/{number}"
    return json.dumps(
        {
            "user_id": f"u{number % 50}",
            "page_url": page,
            "action": ACTIONS[number % len(ACTIONS)],
            "session_id": f"s{number}",
            "event_time": 1_767_600_000_000 + number,
        }
    ).encode()


def test_clickstream(tmp_path, kafka, topic, produce) -> None:
    name = topic(partitions=2)
    home, script = tmp_path / "home", tmp_path / "pipeline.sql"
    text = SCRIPT.read_text()
    assert "'web.clickstream'" in text
    # As it is printed, but for a topic of this test's own, which has to be read from its beginning.
    script.write_text(text.replace("web.clickstream", name).replace("'latest'", "'earliest'"))
    produce(name, [(None, event(n)) for n in range(EVENTS)] + [(None, b"{no JSON")])
    done = icestream(
        "run", script, "--once", "--home", home, "--memory", MEMORY, env={"KAFKA": kafka.bootstrap}
    )
    assert done.returncode == 0, done.stderr

    kept = [n for n in range(EVENTS) if ACTIONS[n % len(ACTIONS)] != "heartbeat"]
    sessions = column(home, "analytics.page_events", "session_id")
    assert sorted(sessions) == sorted(f"s{n}" for n in kept)
    assert duckdb_count(home, "analytics.page_events") == len(kept)
    sections = Counter(column(home, "analytics.page_events", "section"))
    assert sections == Counter("docs" if n % 2 else "blog" for n in kept)
    spec = lake_table(home, "analytics.page_events").spec()
    assert [str(f.transform) for f in spec.fields] == ["day"]
    (source,) = status(home)["sources"]
    assert (source["records"], source["dead_letters"]) == (EVENTS + 1, 1)


def order(op: str, number: int, status: str, lsn: int) -> tuple[str, str]:
    row = {
        "order_id": number,
        "customer": f"c{number % 3}",
        "status": status,
        "amount": f"{number}.50",
        "updated_at": "2026-01-05T10:00:00Z",
    }
    before, after = (row, None) if op == "d" else (None, row)
    event = {"before": before, "after": after, "op": op, "source": {"lsn": lsn}}
    return json.dumps({"order_id": number}), json.dumps(event)


def test_orders_from_change_events(tmp_path, kafka, topic, produce) -> None:
    orders, addresses = topic(partitions=2), topic(partitions=1)
    home, script = tmp_path / "home", tmp_path / "pipeline.sql"
    text = SCRIPT.parents[1].joinpath("orders-cdc", "pipeline.sql").read_text()
    assert "'shop.public.orders'" in text
    script.write_text(
        text.replace("shop.public.orders", orders).replace("shop.addresses", addresses)
    )

    def run() -> None:
        done = icestream(
            "run", script, "--once", "--home", home, "--memory", MEMORY,
            env={"KAFKA": kafka.bootstrap},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    produce(orders, [order("c", n, "new", n) for n in range(100)])
    produce(addresses, [("ada", '{"customer": "ada", "address": "new street", "version": 2}')])
    run()
    produce(orders, [order("u", n, "shipped" if n % 2 else "paid", 100 + n) for n in range(90)])
    produce(orders, [order("d", n, "paid", 200 + n) for n in range(10)])
    produce(addresses, [("ada", '{"customer": "ada", "address": "old street", "version": 1}')])
    produce(
        addresses, [("bob", '{"customer": "bob", "address": "x", "version": 1}'), ("bob", None)]
    )
    run()

    rows = lake_table(home, "public.orders").scan().to_arrow().to_pylist()
    assert {r["order_id"]: (r["status"], r["lsn"]) for r in rows} == {
        **{n: ("shipped" if n % 2 else "paid", 100 + n) for n in range(10, 90)},
        **{n: ("new", n) for n in range(90, 100)},
    }
    still_open = [n for n in range(10, 100) if n >= 90 or n % 2 == 0]
    assert sorted(column(home, "shop.open_orders", "order_id")) == still_open
    assert duckdb_count(home, "shop.open_orders") == len(still_open)
    assert column(home, "public.addresses", "address") == ["new street"]
