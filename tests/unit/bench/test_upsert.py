import json
import sys
from xml.etree import ElementTree

import pytest

from benchmarks.side import Side
from benchmarks.upsert_report import (
    BATCH,
    FLINK,
    MERGE,
    OURS,
    PYICEBERG,
    SCAN,
    STREAM,
    Measured,
    goals,
    report,
    verdict,
)

SMALL, LARGE = 1_000_000, 10_000_000
SETTINGS = {"batches": 3, "changes": 100}
SERVER = """
import sys, time
from benchmarks.side import serve
def work():
    begin = time.process_time()
    while time.process_time() - begin < 0.3: pass
    return {"epochs": 1}
print("noise")
serve(work)
"""


def batch(base: int, contender: str, *seconds: float) -> Measured:
    return Measured(BATCH, contender, base, 100, seconds, [1.0])


def everything() -> list[Measured]:
    return [
        batch(SMALL, OURS, 9, 1, 1),
        batch(LARGE, OURS, 9, 1.4, 1.2),
        batch(LARGE, MERGE, 9, 4.2, 4.2),
        batch(LARGE, PYICEBERG, 14),
        Measured(STREAM, OURS, LARGE, 1000, [10, 10], [5, 5]),
        Measured(STREAM, FLINK, LARGE, 1000, [20, 5, 8], [15, 15]),
        Measured(SCAN, OURS, LARGE, 1, [3, 1, 2]),
        Measured(SCAN, FLINK, LARGE, 1, [9, 4, 8]),
    ]


def test_goals_are_ratios_of_medians_and_of_the_best_scans():
    found = {goal.name: goal for goal in goals(everything())}
    text = {name: verdict(goal) for name, goal in found.items()}
    assert text == {
        "write rate to Flink's, 1 M rows": "not measured",
        "full scan faster than of Flink's table, 1 M rows": "not measured",
        "faster than PyIceberg's upsert, 1 M rows": "not measured",
        "faster than MERGE INTO, 10 M rows": "3.00 × – reached",
        "a batch at 10 M rows to one at 1 M": "1.40 × – **not reached**",
        "write rate to Flink's, 10 M rows": "0.80 × – **not reached**",
        "full scan faster than of Flink's table, 10 M rows": "4.00 × – reached",
        "faster than PyIceberg's upsert, 10 M rows": "10.00 × – **not reached**",
    }
    assert found["write rate to Flink's, 10 M rows"].cpu == pytest.approx(3)


def test_a_later_run_replaces_what_it_measured_and_keeps_the_rest(tmp_path):
    report(tmp_path, SETTINGS, "What.", everything())
    again = [batch(LARGE, OURS, 1.0)]
    aims = {goal.name: goal.found for goal in report(tmp_path, SETTINGS, "What.", again)}
    assert aims["a batch at 10 M rows to one at 1 M"] == 1
    assert aims["faster than MERGE INTO, 10 M rows"] == pytest.approx(4.2)
    assert len(json.loads((tmp_path / "upsert.json").read_text())["measured"]) == 8
    assert "| 10 M | MERGE INTO | 4.20 |" in (tmp_path / "upsert.md").read_text()
    picture = ElementTree.fromstring((tmp_path / "upsert.svg").read_text())
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) == 9


def test_other_settings_begin_anew(tmp_path):
    report(tmp_path, SETTINGS, "What.", everything())
    report(tmp_path, {**SETTINGS, "batches": 4}, "What.", [batch(SMALL, OURS, 1)])
    assert len(json.loads((tmp_path / "upsert.json").read_text())["measured"]) == 1


def test_a_side_works_when_told_and_its_cpu_is_measured(tmp_path):
    with Side("server", [sys.executable, "-c", SERVER], tmp_path / "log") as side:
        for _ in range(2):
            found = side.work()
            assert found["epochs"] == 1
            assert 0.25 < found["cpu"] < 0.6
            assert found["seconds"] >= 0.3


def test_a_side_that_fails_says_why(tmp_path):
    code = "from benchmarks.side import serve; serve(lambda: 1 / 0)"
    with (
        pytest.raises(RuntimeError, match="division by zero"),
        Side("broken", [sys.executable, "-c", code], tmp_path / "log") as side,
    ):
        side.work()
