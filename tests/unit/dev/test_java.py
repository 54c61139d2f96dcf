import pytest

from icestream.dev.java import find_java, major_of, parse_version
from icestream.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "version", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "17.0.15", 17),
        ('java version "1.8.0_402"', "1.8.0_402", 8),
        ('openjdk version "21" 2023-09-19', "21", 21),
        ('openjdk version "25-ea" 2025-09-16', "25-ea", 25),
    ],
)
def test_versions(line, version, major):
    assert parse_version(line) == version
    assert major_of(version) == major


def test_no_version_in_the_output():
    assert parse_version("command not found") is None


def fake_java(folder, prints: str):
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\n{prints}\n")
    executable.chmod(0o755)
    return folder


def test_java_home_wins_over_path(tmp_path, monkeypatch):
    home = fake_java(tmp_path, "echo 'openjdk version \"21.0.2\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    java = find_java()
    assert (java.executable, java.major) == (home / "bin" / "java", 21)


def test_old_java_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "echo 'version \"11.0.1\"' >&2")))
    with pytest.raises(ConfigError, match=r"Java 11\.0\.1, older than 17") as caught:
        find_java()
    assert "openjdk-17" in str(caught.value)


def test_no_java_at_all(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no Java found"):
        find_java()


def test_wrong_java_home(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="no bin/java"):
        find_java()
