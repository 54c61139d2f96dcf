"""The workers' path without Spark's archives."""

from __future__ import annotations

import sys

import pytest

from icestream.runtime import daemon


def test_archives_go_and_the_rest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = ["/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip"]
    own = ["/jobs/mine.zip", "/jobs/mine.egg", *sys.path]
    monkeypatch.setattr(sys, "path", [*theirs, "/spark/jars/spark-core_2.13-4.0.5.jar", *own])
    daemon.leave_archives()
    assert sys.path == own


def test_archives_stay_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ["/spark/python/lib/pyspark.zip", "/somewhere"]
    monkeypatch.setattr(sys, "path", list(path))
    monkeypatch.setattr(daemon, "find_spec", lambda name: None)
    daemon.leave_archives()
    assert sys.path == path
