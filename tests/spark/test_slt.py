"""The cases of tests/slt through the engine's own server: the rows and errors are those of PostgreSQL.

Histories are split into three epochs; `tests/unit/plan/test_histories.py` has them in one, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icestream.dev.slt.__main__ import main
from tests.spark.test_serve import serving
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "slt"
FILES = {str(file.relative_to(ROOT)): file for file in sorted(ROOT.rglob("*.slt"))}


@pytest.fixture(scope="module")
def url(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all files."""
    with serving(tmp_path_factory.mktemp("slt") / "home", spark, epoch_interval=1) as url:
        yield url


@pytest.mark.parametrize("name", FILES)
def test_cases(name: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    failed = main(["--url", url, "--epochs", "3", "--keep-going", str(FILES[name])])
    assert not failed, capsys.readouterr().out
