"""The store of a home: changed only by the process that owns it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from icestream.catalog.store import Store
from icestream.config import Home
from icestream.engine import Engine
from icestream.errors import ConfigError, FencedError

CHANGES: dict[str, Callable[[Store], object]] = {
    "objects": lambda store: store.change(),
    "begin_job": lambda store: store.begin_job(2, "CREATE …", 0.0),
    "end_job": lambda store: store.end_job(1),
    "set": lambda store: store.set("query_mode", "local"),
    "pause": lambda store: store.pause(True),
    "secrets": lambda store: store.keep_secrets({"s": "2"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_process_that_was_succeeded_changes_nothing(tmp_path: Path, change: str) -> None:
    home = Home(tmp_path / "home")
    old = Store(home)
    old.take(1)
    old.begin_job(1, "CREATE …", 0.0)
    old.keep_secrets({"s": "1"})
    new = Store(home)
    new.take(2)
    with pytest.raises(FencedError):
        CHANGES[change](old)
    assert [id for id, _, _ in new.jobs()] == [1]
    assert (new.settings(), new.paused, new.secrets(), new.plan) == ({}, False, {"s": "1"}, 0)
    new.set("query_mode", "local")  # no transaction was left open
    assert old.settings() == {"query_mode": "local"}


def test_ids_of_jobs_are_taken(tmp_path: Path) -> None:
    store = Store(Home(tmp_path / "home"))
    store.take(1)
    assert store.next_id() == 1
    store.begin_job(7, "CREATE …", 0.0)
    assert store.next_id() == 8
    store.end_job(7)
    assert store.next_id() == 1


def test_a_change_that_fails_leaves_no_transaction_open(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    store = Store(home)
    store.take(1)
    meta, store.meta = store.meta, lambda key: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        store.pause(True)
    store.meta = meta  # type: ignore[method-assign]
    Store(home).pause(True)
    store.pause(False)
    assert not store.paused


def test_a_start_notices_that_a_predecessor_has_changed_the_objects(tmp_path: Path) -> None:
    """It has loaded them before it took the home over."""
    home = Home(tmp_path / "home")
    old = Store(home)
    old.take(1)
    late = Engine(home)
    old.change()
    with pytest.raises(ConfigError, match="while this one started"):
        late.resources.own()
    late.close()
    early = Engine(home)
    early.resources.own()
    with pytest.raises(FencedError):
        old.change()
    early.close()
