import threading
from xml.etree import ElementTree

import pytest

from icestream.dev import jars
from icestream.errors import ConfigError

GROUP = jars.Group("toys", ("org.a:ball:1", "org.a:ball:1:tests", "org.b:doll:2"), ("org.c:*",))

# Stands for `java -jar ivy…`: counts its calls, fails the first FAILURES of them, else "retrieves".
FAKE = """#!/bin/sh
if [ "$1" = -version ]; then echo 'version "17"' >&2; exit 0; fi
echo call >> "$ICESTREAM_CACHE/calls"
if [ "$(wc -l < "$ICESTREAM_CACHE/calls")" -le "$FAILURES" ]; then
  echo ':: UNRESOLVED DEPENDENCIES ::'; echo ':: org.b#doll;2: not found'; exit 1
fi
for last; do :; done
folder=$(dirname "$last")
printf ball > "$folder/ball-1.jar"; printf doll > "$folder/doll-2.jar"
echo "downloading somewhere/doll-2.jar ..."
"""


@pytest.fixture
def ivy(tmp_path, monkeypatch):
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(FAKE)
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("ICESTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAILURES", "0")
    return lambda: (tmp_path / "cache" / "calls").read_text().count("call")


def test_resolves_once(ivy):
    lines: list[str] = []
    first = jars.resolve(GROUP, lines.append)
    assert [jar.name for jar in first] == ["ball-1.jar", "doll-2.jar"]
    assert jars.resolve(GROUP) == first
    assert ivy() == 1
    assert "toys: doll-2.jar" in lines


@pytest.mark.parametrize("damage", ["cut", "missing", "manifest"])
def test_a_broken_cache_is_resolved_again(ivy, damage):
    jar, *_ = jars.resolve(GROUP)
    if damage == "cut":
        jar.write_text("b")
    elif damage == "missing":
        jar.unlink()
    else:
        (jar.parent / jars.MANIFEST).write_text('{"files"')
    assert jars.cached(GROUP) is None
    assert jars.resolve(GROUP)[0].read_text() == "ball"
    assert ivy() == 2


def test_partial_failures_are_retried(ivy, monkeypatch):
    monkeypatch.setenv("FAILURES", "2")
    assert len(jars.resolve(GROUP)) == 2
    assert ivy() == 3


def test_giving_up_says_what_is_missing_and_what_to_do(ivy, monkeypatch):
    monkeypatch.setenv("FAILURES", "99")
    with pytest.raises(ConfigError, match="not found") as caught:
        jars.resolve(GROUP)
    assert "ICESTREAM_IVY_SETTINGS" in str(caught.value)
    assert jars.cached(GROUP) is None


def test_concurrent_calls_resolve_once(ivy):
    threads = [threading.Thread(target=jars.resolve, args=(GROUP,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ivy() == 1


def test_module_descriptor_joins_the_jars_of_a_module():
    root = ElementTree.fromstring(jars._module(GROUP))
    ball, doll = root.iter("dependency")
    classifier = "{http://ant.apache.org/ivy/maven}classifier"
    assert [a.get(classifier) for a in ball.iter("artifact")] == [None, "tests"]
    assert list(doll.iter("artifact")) == []
    assert [e.get("org") for e in root.iter("exclude")] == ["org.c"]


def test_unknown_group_suggests_a_known_one():
    with pytest.raises(ConfigError, match="did you mean 'broker'"):
        jars.resolve("brokr")


def test_versions_are_part_of_the_folder():
    newer = jars.Group(GROUP.name, ("org.a:ball:2",), GROUP.excludes)
    assert newer.folder != GROUP.folder
