"""The JVM packages the engine runs on: pinned in one table, resolved once, then read from disk.

A group of Maven coordinates comes in, the paths of its jars go out. The first call resolves them
with the Ivy that ships inside PySpark; every later call reads a manifest, checks the sizes of the
files and costs milliseconds. Nothing else in the product reaches for the internet.

    python -m icestream.dev.jars engine broker      resolves groups and prints their folders

The cache is ICESTREAM_CACHE, else $XDG_CACHE_HOME/icestream, else ~/.cache/icestream. Mirrors and
private repositories: ICESTREAM_IVY_SETTINGS names an Ivy settings file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from icestream.dev.java import find_java
from icestream.errors import ConfigError, did_you_mean

Progress = Callable[[str], None]

ATTEMPTS = 5
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Group:
    """Packages that are resolved together into one class path.

    `packages` are `org:name:version` or `org:name:version:classifier`; `excludes` are `org:name`
    (or `org:*`) that something else already brings.
    """

    name: str
    packages: tuple[str, ...]
    excludes: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """A name that changes with every version, so that an upgrade resolves again."""
        text = "\n".join((*self.packages, "-", *self.excludes))
        return f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


_IN_PYSPARK = (
    "org.scala-lang:*",
    "org.scala-lang.modules:*",
    "org.slf4j:*",
    "org.apache.hadoop:*",
    "org.apache.spark:spark-tags_2.13",
    "com.google.code.findbugs:jsr305",
    "com.github.luben:zstd-jni",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
)

GROUPS: Mapping[str, Group] = {
    group.name: group
    for group in (
        Group(
            "engine",
            (
                "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
                "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
                "org.xerial:sqlite-jdbc:3.50.3.0",
                "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",
            ),
            _IN_PYSPARK,
        ),
        Group(
            "broker",
            (
                "org.apache.kafka:kafka_2.13:4.3.0",
                "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
            ),
        ),
        Group("aws", ("org.apache.iceberg:iceberg-aws-bundle:1.11.0",), _IN_PYSPARK),
        # Change events of a PostgreSQL for tests: a Kafka Connect worker, and Debezium's connector,
        # which the worker loads from a folder of its own.
        Group(
            "connect",
            (
                "org.apache.kafka:connect-runtime:4.3.0",
                "org.apache.kafka:connect-json:4.3.0",
                "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
            ),
        ),
        Group(
            "debezium",
            ("io.debezium:debezium-connector-postgres:3.6.1.Final",),
            ("org.apache.kafka:*", "org.slf4j:*"),
        ),
        # A REST catalog server for tests; it also needs Hadoop's client, from PySpark's own jars.
        Group(
            "rest-fixture",
            (
                "org.apache.iceberg:iceberg-open-api:1.11.0:test-fixtures",
                "org.apache.iceberg:iceberg-core:1.11.0",
                "org.apache.iceberg:iceberg-core:1.11.0:tests",
                "org.apache.iceberg:iceberg-aws:1.11.0",
                "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.5",
                "org.eclipse.jetty.compression:jetty-compression-server:12.1.5",
                "org.eclipse.jetty.compression:jetty-compression-gzip:12.1.5",
                "org.slf4j:slf4j-simple:2.0.17",
                "org.xerial:sqlite-jdbc:3.50.3.0",
            ),
        ),
    )
}


def cache_dir() -> Path:
    """Where resolved packages live."""
    own = os.environ.get("ICESTREAM_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache").absolute() / "icestream"


def resolve(group: str | Group, progress: Progress | None = None) -> tuple[Path, ...]:
    """The jars of a group, from the cache or, the first time, from Maven repositories.

    Safe to call from several processes at once: one resolves, the others wait. A cache entry with a
    missing or cut-off file is resolved again. Raises ConfigError with the end of Ivy's log.
    """
    wanted = lookup(group) if isinstance(group, str) else group
    found = cached(wanted)
    if found is not None:
        return found
    with _locked(cache_dir() / "lock"):
        found = cached(wanted)
        return found if found is not None else _fetch(wanted, progress or (lambda line: None))


def cached(group: str | Group) -> tuple[Path, ...] | None:
    """The jars of a group if all of them are on disk, in full; None otherwise."""
    wanted = lookup(group) if isinstance(group, str) else group
    folder = cache_dir() / "jars" / wanted.folder
    try:
        sizes = json.loads((folder / MANIFEST).read_text())["files"]
        intact = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return None
    return tuple(folder / name for name in sizes) if intact else None


def lookup(name: str) -> Group:
    """The group of the table with this name."""
    if name not in GROUPS:
        raise ConfigError(
            f"unknown package group {name!r}",
            remedy=did_you_mean(name, GROUPS) or f"one of {', '.join(GROUPS)}",
        )
    return GROUPS[name]


def class_path(jars: Sequence[Path]) -> str:
    """Jars as the value of `java -cp`."""
    return os.pathsep.join(str(jar) for jar in jars)


def pyspark_home() -> Path:
    """The folder of the installed PySpark, which is also its SPARK_HOME."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("PySpark is not installed", remedy="run make setup")
    return Path(spec.origin).parent


def _fetch(group: Group, progress: Progress) -> tuple[Path, ...]:
    """Runs Ivy until a whole attempt succeeds; what an attempt downloaded, the next one keeps."""
    folder = cache_dir() / "jars" / group.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    progress(f"{group.name}: resolving {', '.join(group.packages)}")
    log: list[str] = []
    for attempt in range(1, ATTEMPTS + 1):
        log = []
        if _ivy(group, folder, log, progress):
            return _seal(group, folder, progress)
        progress(f"{group.name}: attempt {attempt} of {ATTEMPTS} was not complete")
    shutil.rmtree(folder, ignore_errors=True)
    raise ConfigError(
        f"could not resolve the Java packages of {group.name!r}:\n" + _problems(log),
        remedy="check the network and try again (what was downloaded is kept); "
        "for a mirror set ICESTREAM_IVY_SETTINGS to an Ivy settings file",
    )


def _ivy(group: Group, folder: Path, log: list[str], progress: Progress) -> bool:
    """One attempt: Ivy resolves into its own cache and copies the jars into the folder."""
    ivy_home = cache_dir() / "ivy"
    ivy_home.mkdir(parents=True, exist_ok=True)
    module = folder / "ivy.xml"
    module.write_text(_module(group))
    ivy_jars = sorted((pyspark_home() / "jars").glob("ivy-*.jar"))
    if not ivy_jars:
        raise ConfigError(f"no Ivy in {pyspark_home()}", remedy="reinstall PySpark: make setup")
    settings = os.environ.get("ICESTREAM_IVY_SETTINGS")
    command = [
        str(find_java().executable),
        f"-Divy.default.ivy.user.dir={ivy_home}",
        *("-jar", str(ivy_jars[-1]), "-ivy", str(module)),
        *(("-settings", settings) if settings else ()),
        *("-cache", str(ivy_home / "cache"), "-types", "jar", "bundle"),
        *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            log.append(line.rstrip())
            if line.startswith("downloading ") and ".jar" in line:
                progress(f"{group.name}: {line.split()[1].rsplit('/', 1)[-1]}")
    module.unlink()
    text = "\n".join(log)
    return ivy.returncode == 0 and "UNRESOLVED DEPENDENCIES" not in text and "FAILED" not in text


def _module(group: Group) -> str:
    """The group as an Ivy module descriptor."""
    lines = [
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
        f'<info organisation="icestream" module={quoteattr(group.name)}/>',
        '<configurations><conf name="default"/></configurations><dependencies>',
    ]
    for (org, name, version), classifiers in _modules(group).items():
        artifacts = "".join(
            f"<artifact name={quoteattr(name)}{f' m:classifier={quoteattr(c)}' if c else ''}/>"
            for c in (classifiers if any(classifiers) else ())
        )
        lines.append(
            f"<dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(version)} "
            f'conf="default->default">{artifacts}</dependency>'
        )
    for exclude in group.excludes:
        org, name = exclude.split(":")
        lines.append(f"<exclude org={quoteattr(org)} module={quoteattr(name)}/>")
    return "\n".join([*lines, "</dependencies></ivy-module>"])


def _modules(group: Group) -> dict[tuple[str, str, str], list[str]]:
    """Packages by (org, name, version), each with its classifiers; the plain jar has none: ""."""
    modules: dict[tuple[str, str, str], list[str]] = {}
    for package in group.packages:
        org, name, version, classifier = (*package.split(":"), "")[:4]
        modules.setdefault((org, name, version), []).append(classifier)
    return modules


def _seal(group: Group, folder: Path, progress: Progress) -> tuple[Path, ...]:
    """Writes the manifest, atomically and last: a folder without one does not count."""
    jars = sorted(folder.glob("*.jar"))
    sizes = {jar.name: jar.stat().st_size for jar in jars}
    draft = folder / f"{MANIFEST}.new"
    draft.write_text(json.dumps({"packages": group.packages, "files": sizes}, indent=1))
    draft.replace(folder / MANIFEST)
    progress(f"{group.name}: {len(jars)} jars, {sum(sizes.values()) / 1e6:.0f} MB")
    return tuple(jars)


def _problems(log: Sequence[str]) -> str:
    """What went wrong, from Ivy's log: its own list of problems, else its last lines."""
    marked = [
        line
        for line in log
        if re.search(r"not found|FAILED|ERROR|Exception|refused|timed out", line)
    ]
    return "\n".join(f"    {line.strip()}" for line in (marked or list(log))[-12:])


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock file for as long as the block runs; another process waits for it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("w")
    except OSError as error:
        raise ConfigError(
            f"cannot write the package cache {path.parent}: {error.strerror}",
            remedy="set ICESTREAM_CACHE to a folder you can write to",
        ) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main(names: Sequence[str]) -> int:
    """Resolves the named groups (all, if none is named) and prints where each one is."""
    try:
        for name in names or tuple(GROUPS):
            jars = resolve(name, lambda line: print(f"  {line}", flush=True))
            print(f"{name}: {len(jars)} jars in {jars[0].parent}")
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
