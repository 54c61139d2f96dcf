"""Spark's own file system opens only files below allowed directories, and in the home only what belongs to the lake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SCRIPT = """
import json, sys
from pathlib import Path
from icestream.config import EngineSettings, Home
from icestream.file_access import FileAccess
from icestream.runtime import session

home, data, *paths = sys.argv[1:]
access = FileAccess.of(Path(home), [data])
spark = session.start(Home.at(home), EngineSettings(driver_memory="512m"), access=access)
found = {}
for path in paths:
    try:
        found[path] = [row.value for row in spark.read.text(path).collect()]
    except Exception as error:
        found[path] = str(error)
for path in (f"{data}/made", f"{data}/link/made", f"{home}/made", f"{home}/lake/warehouse/made"):
    try:
        spark.range(1).write.parquet(path)
        found[path] = "written"
    except Exception as error:
        found[path] = str(error)
texts = (
    "http://user:canary@host sasl", "http://user:c@n'canary@other/x", 'a password="x\\\\"canary" b', "sasl.password: canary",
    "password='it''s canary' c", "Map(s3.secret-access-key -> ca{n};canary, d -> e)", "https://h/x?sig=canary&f=1",
    '{"s3.secret-access-key":"canary","g":1}', "-----BEGIN PRIVATE KEY-----\\ncanary\\ncanary\\n-----END", "the end",
)
for text in texts:
    spark._jvm.org.apache.logging.log4j.LogManager.getLogger("test").error(text)
print(json.dumps(found))
spark.stop()
"""


def test_spark_opens_allowed_files_alone(tmp_path: Path) -> None:
    home, data, outside = (tmp_path / name for name in ("home", "data", "outside"))
    for folder in (home, data / "deep", outside):
        folder.mkdir(parents=True)
    (home / "secrets.json").write_text("canary\n")
    (outside / "x.txt").write_text("canary\n")
    (data / "a.txt").write_text("good\n")
    (data / "link").symlink_to(outside)
    (data / "deep" / "x.txt").symlink_to(outside / "x.txt")
    (data / "deep" / "home").symlink_to(home)
    (data / "again.txt").symlink_to(data / "a.txt")
    allowed = [f"{data}/a.txt", f"file:{data}/a.t*", f"{data}/again.txt"]
    refused = [
        f"{outside}/x.txt", f"file://{outside}/x.txt", "/etc/passwd", f"{home}/secrets.json", str(home),
        f"{data}/link/x.txt", f"{data}/l*/x.txt", f"{data}/deep/x.txt", f"{data}/deep/h*/secrets.json",
        f"{data}/\\.\\./outside/x.txt", f"{data}/{{a,../outside}}/x.txt", f"{data}/deep",
    ]  # fmt: skip
    arguments = [sys.executable, "-c", SCRIPT, str(home), str(data), *allowed, *refused]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    for path in allowed:
        assert found[path] == ["good"], path
    for path in refused:
        assert isinstance(found[path], str), path
        assert "canary" not in found[path]
    assert found[f"{data}/made"] == found[f"{home}/lake/warehouse/made"] == "written"
    for path in (f"{data}/link/made", f"{home}/made"):
        assert "not below an allowed directory" in found[path]
    assert not (outside / "made").exists()
    log = (home / "logs" / "jvm.log").read_text()
    assert "http://user:<hidden>@host sasl" in log
    assert "canary" not in log
    for kept in (
        "http://user:<hidden>@other/x",
        " b\n",
        " c\n",
        ", d -> e)",
        "&f=1",
        ',"g":1}',
        "the end\n",
    ):
        assert kept in log
