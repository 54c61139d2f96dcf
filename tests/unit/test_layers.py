"""A package imports only from those before it, and the front half imports without a JVM."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import icestream

ROOT = Path(icestream.__file__).parent
ORDER = [
    "secrecy",
    "errors",
    "types",
    "identity",
    "home_log",
    "config",
    "file_access",
    "faults",
    "interrupts",
    "fallbacks",
    "result",
    "sql",
    "functions",
    "plan",
    "lake",
    "dev",
    "connectors",
    "kafka_connect",
    "catalog",
    "maintenance",
    "observe",
    "runtime",
    "jobs",
    "engine",
    "api",
    "server",
    "cli",
    "__main__",
]


def imports(path: Path) -> set[str]:
    """The packages of ours that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module]
                if node.module != "icestream"
                else [f"icestream.{a.name}" for a in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("icestream.")}
    return found - {"__version__"}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_backwards(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if package == "__init__":
        return
    later = {name for name in imports(path) if ORDER.index(name) > ORDER.index(package)}
    assert not later


def test_the_front_half_needs_no_spark() -> None:
    code = (
        "import sys, icestream.sql, icestream.functions.registry, icestream.plan.query, icestream.catalog.catalog, "
        "icestream.engine, icestream.cli; sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
