import json
import sys
from xml.etree import ElementTree

import pytest

from benchmarks.events import COLUMNS, events
from benchmarks.harness import Contender, Run, compete, report, summarize
from benchmarks.measure import PR_SET_CHILD_SUBREAPER

ORPHAN = """
import os, time
if os.fork() == 0:                 # nobody waits for this one
    begin = time.process_time()
    while time.process_time() - begin < 0.5: pass
    os._exit(0)
print('{"rows": 10}', flush=True)
"""


def contender(name: str, code: str) -> Contender:
    return Contender(name, lambda folder: [sys.executable, "-c", code, str(folder)])


def test_contenders_take_turns_and_every_result_is_checked(tmp_path):
    seen = []
    sides = [contender(name, 'print(\'{"rows": 5, "seconds": 0.5}\')') for name in "ab"]
    runs = compete(sides, tmp_path, 2, lambda side, folder, output: seen.append(side.name))
    assert [run.contender for run in runs] == seen == ["a", "b", "a", "b"]
    assert {run.seconds for run in runs} == {0.5}


def test_cpu_of_a_process_that_nobody_waits_for_is_counted(tmp_path):
    assert PR_SET_CHILD_SUBREAPER == 36
    (run,) = compete([contender("orphan", ORPHAN)], tmp_path, 1)
    assert run.cpu > 0.45
    assert run.seconds == run.wall


def test_a_failing_contender_ends_the_benchmark_with_its_log(tmp_path):
    with pytest.raises(RuntimeError, match="no such table"):
        compete([contender("broken", "raise SystemExit('no such table')")], tmp_path, 1)


def run(name: str, number: int, seconds: float) -> Run:
    return Run(name, number, seconds, seconds, 2 * seconds, 100, 1000, {})


def test_ratios_are_ours_to_theirs():
    runs = [run("ours", 1, 1), run("theirs", 1, 2), run("ours", 2, 1.5), run("ours", 3, 100)]
    ours, theirs = summarize([*runs, run("theirs", 2, 2)])
    assert (ours.seconds, ours.ratio) == (1.5, 1)
    assert theirs.ratio == pytest.approx(2 / 1.5)


def test_report_is_json_markdown_and_a_picture(tmp_path):
    report("x", "A < B", "What.", [run("ours", 1, 1), run("their's", 1, 2)], tmp_path)
    assert len(json.loads((tmp_path / "x.json").read_text())["runs"]) == 2
    assert "2.00 × as fast" in (tmp_path / "x.md").read_text()
    picture = ElementTree.fromstring((tmp_path / "x.svg").read_text())
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) == 3


def test_events_are_the_same_however_they_are_sliced():
    whole = list(events(1000))
    assert sorted([*events(1000, start=0, step=2), *events(1000, start=1, step=2)]) == sorted(whole)
    assert list(events(10, seed=2)) != whole[:10]
    assert list(json.loads(whole[7])) == list(COLUMNS)
    assert 170 < sum(map(len, whole)) / len(whole) < 220
