"""icestream.connect, as far as that goes without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

import icestream
from icestream.engine import Engine
from icestream.errors import ConnectorError
from tests.engine import await_condition


def test_a_pipeline_that_failed_is_told_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(engine: Engine, stop: object) -> None:
        raise ConnectorError("the broker is gone")

    monkeypatch.setattr(Engine, "open", lambda engine: None)
    monkeypatch.setattr(Engine, "resume_jobs", lambda engine: None)
    monkeypatch.setattr(Engine, "run", fails)
    with icestream.connect(tmp_path / "home") as db:
        assert db.execute("SHOW VIEWS")[0].rows == []
        db.start()
        await_condition(lambda: db._loop.failed is not None, "the loop ends", 10)
        for call in (lambda: db.execute("SHOW VIEWS"), lambda: db.sql("SELECT 1 AS a"), db.start):
            with pytest.raises(ConnectorError, match="the broker is gone"):
                call()
