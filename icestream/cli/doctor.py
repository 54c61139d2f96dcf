"""`icestream doctor`: is this machine fit to run the engine? One line a check, with a remedy.

A check looks at one thing and returns a `Finding`; none of them changes the machine, except that
`--resolve` fetches the JVM packages that are missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from icestream.cli.arguments import add_home
from icestream.dev import jars
from icestream.dev.child import HOST
from icestream.dev.java import NEWEST_KNOWN, find_java
from icestream.errors import ConfigError

Verdict = Literal["ok", "warn", "FAIL"]

NEEDED_GROUPS = ("engine",)
OPTIONAL_GROUPS = {
    "broker": "for the embedded Kafka",
    "aws": "for S3 and Glue",
}
DISK_WARN, DISK_FAIL = 5e9, 0.5e9
MEMORY_WARN, MEMORY_FAIL = 4e9, 1.5e9


@dataclass(frozen=True)
class Finding:
    """What a check saw, and what to do about it if it is not ok."""

    verdict: Verdict
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        hint = f" ({self.remedy})" if self.remedy else ""
        return f"{self.verdict:<4}  {self.what}{hint}"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `doctor` to the command line."""
    doctor = subparsers.add_parser(
        "doctor",
        help="check Java, packages, ports, disk and memory",
        description="Is this machine fit to run the engine? One line a check, with a remedy.",
    )
    add_home(doctor)
    doctor.add_argument("--resolve", action="store_true", help="fetch missing JVM packages")
    doctor.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints one line a check; 1 if any of them failed."""
    failed = False
    for finding in examine(Path(args.home), resolve=args.resolve):
        print(finding, flush=True)
        failed = failed or finding.verdict == "FAIL"
    return 1 if failed else 0


def examine(home: Path, resolve: bool = False) -> Iterator[Finding]:
    """All findings, in the order a person would look."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        check_java,
        check_packages,
        lambda: check_jars(resolve),
        check_ports,
        lambda: check_home(home),
        lambda: check_disk(home),
        check_memory,
    )
    for check in checks:
        yield from check()


def check_java() -> Iterator[Finding]:
    """Java is there and new enough."""
    try:
        java = find_java()
    except ConfigError as error:
        yield Finding("FAIL", error.message, error.remedy or "")
        return
    if java.major > NEWEST_KNOWN:
        remedy = f"Spark 4.0 is released for Java 17 and {NEWEST_KNOWN}; set JAVA_HOME to one"
        yield Finding("warn", f"Java {java.version} is newer than Spark knows", remedy)
        return
    yield Finding("ok", str(java))


def check_packages() -> Iterator[Finding]:
    """The Python packages that the project needs are installed, in versions within its ranges."""
    try:
        wanted = [Requirement(text) for text in metadata.requires("icestream") or ()]
    except metadata.PackageNotFoundError:
        yield Finding("FAIL", "icestream itself is not installed", "run make setup")
        return
    wanted = [r for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
    wrong = []
    for requirement in wanted:
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if installed not in requirement.specifier:
            wrong.append(f"{requirement.name} is {installed}, not {requirement.specifier}")
    if wrong:
        yield Finding("FAIL", f"Python packages: {', '.join(wrong)}", "run make setup")
    else:
        python = ".".join(map(str, sys.version_info[:3]))
        yield Finding("ok", f"Python {python} with its {len(wanted)} packages")


def check_jars(resolve: bool) -> Iterator[Finding]:
    """The JVM packages are in the cache; with `resolve`, the missing ones are fetched first."""
    for name in (*NEEDED_GROUPS, *OPTIONAL_GROUPS):
        found = jars.cached(name)
        if found is None and resolve:
            try:
                found = jars.resolve(name)
            except ConfigError as error:
                yield Finding("FAIL", f"JVM packages {name}: {error.message}", error.remedy or "")
                continue
        use = f", {OPTIONAL_GROUPS[name]}" if name in OPTIONAL_GROUPS else ""
        if found is None:
            remedy = "fetched on first use, or now with icestream doctor --resolve"
            yield Finding("warn", f"JVM packages {name} are not here yet{use}", remedy)
        else:
            yield Finding("ok", f"JVM packages {name}: {len(found)} jars in {found[0].parent}")


def check_ports() -> Iterator[Finding]:
    """Servers can listen on the loopback address."""
    try:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            probe.listen()
            with socket.create_connection(probe.getsockname(), timeout=5):
                pass
    except OSError as error:
        remedy = "bring the loopback interface up, allow local connections"
        yield Finding("FAIL", f"cannot listen and connect on {HOST}: {error}", remedy)
        return
    yield Finding("ok", f"ports on {HOST} can be opened")


def check_home(home: Path) -> Iterator[Finding]:
    """The home directory can be written (or made), and so can the cache."""
    for what, folder, remedy in (
        ("home", home, "choose another one with --home"),
        ("package cache", jars.cache_dir(), "set ICESTREAM_CACHE to another folder"),
    ):
        try:
            with tempfile.TemporaryFile(dir=nearest_existing(folder)):
                pass
        except OSError as error:
            yield Finding("FAIL", f"cannot write {what} {folder}: {error.strerror}", remedy)
        else:
            yield Finding("ok", f"{what} {folder} can be written")


def check_disk(home: Path) -> Iterator[Finding]:
    """There is room for tables and packages."""
    free = shutil.disk_usage(nearest_existing(home)).free
    yield measured(
        f"{free / 1e9:.1f} GB free on disk", free, DISK_WARN, DISK_FAIL, "make room for tables"
    )


def check_memory() -> Iterator[Finding]:
    """There is memory for one JVM with Spark beside Python."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    remedy = "Spark wants 4 GB; close other programs or use a larger machine"
    yield measured(f"{total / 1e9:.1f} GB of memory", total, MEMORY_WARN, MEMORY_FAIL, remedy)


def measured(what: str, value: float, warn: float, fail: float, remedy: str) -> Finding:
    """A quantity against its two limits."""
    if value >= warn:
        return Finding("ok", what)
    return Finding("FAIL" if value < fail else "warn", what, remedy)


def nearest_existing(path: Path) -> Path:
    """The path, or the closest folder above it that exists."""
    candidate = path.absolute()
    while not candidate.exists():
        candidate = candidate.parent
    return candidate
