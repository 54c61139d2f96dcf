"""`python -m icestream.cli.classes`: make the class archive that lets sessions start faster (see runtime.classes)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import ConfigError
from icestream.runtime.classes import archive

TIMEOUT = 300
KEPT_SECONDS = 30 * 86400
"""Archives of other checkouts and older versions are removed after a month."""
SCRIPT = """
CREATE SOURCE s (id BIGINT, name VARCHAR) WITH (connector = 'file', path = '{path}')
  FORMAT PLAIN ENCODE JSON;
CREATE SINK k AS SELECT id, upper(name) AS name FROM s WHERE id > 0 WITH (
  connector = 'iceberg', type = 'append-only', table.name = 'k', create_table_if_not_exists = 'true');
"""


def make() -> Path:
    """Make the archive, in a process of its own, unless it is there."""
    path = archive()
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        recorded = Path(folder) / "classes.jsa"
        command = [sys.executable, "-m", "icestream.cli.classes", "--record", str(recorded)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if done.returncode or not recorded.exists():
            lines = done.stderr.strip().splitlines()
            raise ConfigError(
                f"the class archive could not be made: {lines[-1] if lines else 'no reason given'}",
                remedy="nothing depends on it: sessions only start more slowly",
            )
        recorded.rename(path)
    for old in path.parent.glob("classes-*.jsa"):
        if old.stat().st_mtime < time.time() - KEPT_SECONDS:
            old.unlink(missing_ok=True)
    return path


def _record(recorded: Path) -> None:
    """Run a small pipeline in a JVM that writes its classes down when it ends."""
    from icestream.lake.jvm import jvm_process
    from icestream.runtime import session

    folder = recorded.parent
    (folder / "in").mkdir()
    (folder / "in" / "rows.json").write_text('{"id": 1, "name": "a"}\n')
    home = Home.at(folder / "home")
    application = session.start(home, EngineSettings(driver_memory="1g"), record=recorded)
    with Engine(home, application=application, allow_paths=[folder / "in"]) as engine:
        engine.execute(SCRIPT.format(path=folder / "in"))
        engine.run(threading.Event(), once=True)
    process = jvm_process()
    application.stop()
    assert process.stdin is not None
    process.stdin.close()
    process.wait(TIMEOUT)


def main(arguments: list[str]) -> int:
    """Make the archive; a failure is told and harms nothing."""
    if arguments[:1] == ["--record"]:
        _record(Path(arguments[1]))
        os._exit(0)
    try:
        print(f"classes: {make()}")
    except (ConfigError, subprocess.TimeoutExpired) as error:
        print(f"warning: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
