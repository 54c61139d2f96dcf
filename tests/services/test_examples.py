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
