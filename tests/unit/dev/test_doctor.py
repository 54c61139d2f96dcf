from pathlib import Path

import pytest

from icestream.cli import doctor


def test_missing_jars_are_a_warning_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("ICESTREAM_CACHE", str(tmp_path))
    findings = list(doctor.check_jars(resolve=False))
    assert {f.verdict for f in findings} == {"warn"}
    assert "icestream doctor --resolve" in str(findings[0])


def test_no_java_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (finding,) = doctor.check_java()
    assert str(finding).startswith("FAIL  JAVA_HOME is")
    assert "openjdk-17" in finding.remedy


def test_the_test_environment_has_its_packages():
    (finding,) = doctor.check_packages()
    assert finding.verdict == "ok", finding


def test_home_that_is_a_file_fails(tmp_path):
    (tmp_path / "file").touch()
    home, _ = doctor.check_home(tmp_path / "file" / "home")
    assert home.verdict == "FAIL"
    assert "--home" in home.remedy


@pytest.mark.parametrize(("value", "verdict"), [(10, "ok"), (5, "warn"), (1, "FAIL")])
def test_limits(value, verdict):
    assert doctor.measured("room", value, warn=6, fail=2, remedy="more").verdict == verdict


def test_nearest_existing(tmp_path: Path):
    assert doctor.nearest_existing(tmp_path / "a" / "b") == tmp_path
