"""The JVM's output in files, without the secrets that this process knows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from icestream.runtime import jvm_output
from icestream.runtime.jvm_output import JvmOutput, MaskedFile, capture, mask_crash_reports
from icestream.secrecy import KNOWN, remember_secret

CANARY = "Kettle7 of the Grey Heron"
"""No pattern hides it: no word around it says that it is a secret."""


@pytest.fixture(autouse=True)
def canary() -> Iterator[None]:
    remember_secret(CANARY)
    yield
    KNOWN.clear()


def run_captured(script: str, folder: Path) -> tuple[str, str]:
    """What the files have of a process's output and errors."""
    out, err = (JvmOutput(MaskedFile(folder / name)) for name in ("out", "err"))
    with capture(out, err):
        process = subprocess.Popen([sys.executable, "-c", script])
    process.wait()
    for output in (out, err):
        output.wait(10)
    files = [folder / "out", folder / "err"]
    said, complained = (file.read_text() if file.exists() else "" for file in files)
    return said, complained


def test_secrets_are_hidden_by_their_values(tmp_path: Path) -> None:
    script = (
        f"import sys; print('went to {CANARY} now'); print('{CANARY}', file=sys.stderr, end='')"
    )
    out, err = run_captured(script, tmp_path)
    assert out == "went to <hidden> now\n"
    assert err == "<hidden>\n"


def test_a_secret_is_found_where_two_pieces_of_the_pipe_meet(tmp_path: Path) -> None:
    script = f"""
import sys, time
for part in ({CANARY[:7]!r}, {CANARY[7:]!r}, " end\\n"):
    sys.stdout.write(part); sys.stdout.flush(); time.sleep(0.2)
"""
    assert run_captured(script, tmp_path)[0] == "<hidden> end\n"


def test_a_line_that_is_too_long_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_output, "LONGEST_LINE", 100_000)
    script = f"print('x' * 150_000 + {CANARY!r} + 'x' * 150_000); print('after')"
    out, _ = run_captured(script, tmp_path)
    assert CANARY not in out
    assert out.endswith("\nafter\n")
    assert len(out) < 100


def test_files_are_rolled(tmp_path: Path) -> None:
    file = MaskedFile(tmp_path / "jvm.log", roll_at=100, kept=2)
    for number in range(40):
        file.write(f"line {number:03}\n".encode())
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["jvm.log", "jvm.log.1", "jvm.log.2"]
    kept = "".join((tmp_path / name).read_text() for name in reversed(names))
    assert kept == "".join(f"line {n:03}\n" for n in range(12, 40))


def test_a_file_that_cannot_be_written_costs_lines_alone(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    file = MaskedFile(folder / "jvm.log")
    file.write(b"lost\n")
    folder.mkdir()
    file.write(b"kept\n")
    assert (folder / "jvm.log").read_text() == "kept\n"


def test_crash_reports_are_masked(tmp_path: Path) -> None:
    report = tmp_path / "jvm-crash-7.log"
    report.write_text(f"# A fatal error\nargument: {CANARY}\n")
    mask_crash_reports(tmp_path)
    assert report.read_text() == "# A fatal error\nargument: <hidden>\n"
