import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.nexmark import generator, queries
from benchmarks.nexmark.__main__ import reason
from benchmarks.nexmark.icestream import seconds_of_epochs
from benchmarks.nexmark.oracle import Oracle, difference
from benchmarks.nexmark.report import FLINK, OURS, Measured, geometric_mean, goals, report
from benchmarks.peers.flink_nexmark import COLUMNS
from icestream.config import Home
from icestream.engine import Engine

EVENTS = 5_000
ENV = {"KAFKA": "localhost:9092", "SIDE_INPUT": "/side_input"}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nexmark")
    found = Oracle(
        generator.write(folder, EVENTS), generator.write_side_input(folder / "side_input")
    )
    yield found
    found.close()


@pytest.mark.parametrize("query", queries.ALL)
def test_every_query_binds_with_the_columns_that_the_oracle_has(query, oracle, tmp_path):
    with Engine(Home.at(tmp_path), env=ENV, allow_paths=["/"]) as engine:
        changes = engine.plan(queries.script(query).read_text(), query)
    *sources, view = (change.object for change in changes)
    expected, seen = queries.oracle(query)
    wanted = oracle._columns(expected)
    assert seen or {column.name for column in view.columns} >= set(wanted)
    assert {s.name for s in sources} - {"side_input"} == set(queries.reads(query)) <= set(COLUMNS)
    assert oracle._sorted(expected, wanted).num_rows > 0, "no rows, nothing is tested"


@pytest.mark.parametrize("query", queries.ALL)
def test_a_right_result_passes_and_a_wrong_one_does_not(query, oracle, tmp_path):
    expected, seen = queries.oracle(query)
    if seen:
        pytest.skip("its result has columns that are not determined")
    rows = oracle.db.execute(expected).to_arrow_table()
    shuffled = rows.take(list(reversed(range(len(rows)))))
    pq.write_table(shuffled, tmp_path / "result.parquet")
    assert oracle.check(query, tmp_path) == len(rows)
    pq.write_table(
        pa.concat_tables([rows.slice(1), rows.slice(len(rows) - 1)]), tmp_path / "result.parquet"
    )
    with pytest.raises(RuntimeError, match=f"{query} is wrong"):
        oracle.check(query, tmp_path)


def test_processing_time_windows_are_compared_by_what_is_determined(oracle, tmp_path):
    rows = "SELECT bidder, count(*) AS bid_count, TIMESTAMPTZ '{}' AS starttime, TIMESTAMPTZ '{}' AS endtime FROM bid GROUP BY 1"
    right = rows.format("2026-01-01 00:00:10Z", "2026-01-01 00:00:20Z")
    pq.write_table(oracle.db.execute(right).to_arrow_table(), tmp_path / "result.parquet")
    oracle.check("q12", tmp_path)
    askew = rows.format("2026-01-01 00:00:11Z", "2026-01-01 00:00:21Z")
    pq.write_table(oracle.db.execute(askew).to_arrow_table(), tmp_path / "result.parquet")
    with pytest.raises(RuntimeError, match="q12 is wrong"):
        oracle.check("q12", tmp_path)


def test_differences_are_told():
    one = pa.table({"id": [1, 2], "mean": [1.0, 2.0]})
    assert difference(one, one) is None
    assert difference(one, one.set_column(1, "mean", pa.array([1.0, 2.0 + 1e-12]))) is None
    assert difference(one, one.slice(1)) == "1 rows, expected 2"
    other = one.set_column(1, "mean", pa.array([1.0, None]))
    assert difference(one, other) == "mean: [2, None], expected [2, 2.0]"


def test_flink_reads_the_columns_that_there_are():
    for kind, columns in COLUMNS.items():
        assert list(columns) == generator.events(kind, 0, 50).column_names
    assert [f"q{n}" for n in (0, 3, 4, 5, 7, 8, 9, *range(15, 21))] == queries.BY_FLINK


def test_the_reason_of_a_failure_is_one_line():
    assert (
        reason(
            "q3 icestream failed (1), see x:\nCREATE SOURCE bid\nerror: a.sql:1:1: no\n  hint: x"
        )
        == "a.sql:1:1: no"
    )
    assert reason("q3 is wrong: 1 rows, expected 2") == "q3 is wrong: 1 rows, expected 2"
    assert reason("q3 Flink failed (124), see x:\nINFO x") == "not done after 900 s"
    assert reason("Flink failed\nCaused by: X: y\n\tat z") == "Caused by: X: y"


def test_seconds_of_epochs_are_found(capsys):
    lines = [
        "CREATE MATERIALIZED VIEW q0\n",
        "epoch 1: 920,000 records in 12.34 s (74,554/s): q0 +920,000\n",
        "epoch 2: 7 records in 0.50 s (14/s), 1 dead letter\n",
    ]
    assert seconds_of_epochs(lines) == [12.34, 0.5]
    assert capsys.readouterr().err == "".join(lines)


def measured(query: str, side: str, seconds: float) -> Measured:
    return Measured(query, side, 1000, [seconds], [seconds / 2], [2 * seconds], 10, 1, "today")


def test_the_report_keeps_what_was_measured_before(tmp_path):
    settings = {"events": 1000}
    ours = [measured(query, OURS, 2) for query in queries.ALL]
    report(tmp_path, settings, "what", ours[:-1])
    report(tmp_path, settings, "what", [ours[-1], measured("q0", FLINK, 4)])
    known = report(tmp_path, settings, "what", [measured("q3", FLINK, 1)])
    assert len(known) == len(queries.ALL) + 2
    run, mean, *_ = goals(known)
    assert (run.found, run.reached) == ("23 of 23", True)
    assert (mean.found, mean.reached) == ("1.00 × over 2 queries", True)
    assert geometric_mean([2, 0.5]) == pytest.approx(1)
    text = (tmp_path / "nexmark.md").read_text()
    assert "| q0 | Pass through" in text
    assert "| 2.00 × | 2.00 × | 2.00 × |" in text
    assert json.loads((tmp_path / "nexmark.json").read_text())["settings"] == settings


def test_a_failed_query_is_shown_and_misses_the_goal(tmp_path):
    failed = replace(measured("q4", OURS, 2), seconds=[], error="not supported | yet")
    known = report(tmp_path, {}, "what", [measured("q0", OURS, 2), failed])
    assert goals(known)[0].verdict == "1 of 2 – **not reached**"
    assert goals([known[0]])[0].verdict == "1 of 1 – not all measured"
    assert "failed: not supported / yet" in (tmp_path / "nexmark.md").read_text()
