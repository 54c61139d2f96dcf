"""Rules of the code that no linter has: one tree of exceptions, one module that talks to the JVM."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

import icestream

ROOT = Path(icestream.__file__).parent
MODULES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")
}

# -- exceptions ------------------------------------------------------------------------------------

TREE = "EngineError"
OUTSIDE = {
    "EngineError": "the root",
    "StatementCancelledError": "a BaseException: code that handles failures must not catch it",
}


def exception_classes() -> dict[str, list[str]]:
    """The exception classes of the package and their bases, by the last part of their names."""
    classes = {
        node.name: [ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases]
        for tree in MODULES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }

    def is_exception(name: str) -> bool:
        if name in classes:
            return any(is_exception(base) for base in classes[name] if base != name)
        known = getattr(builtins, name, None)
        return isinstance(known, type) and issubclass(known, BaseException)

    return {name: bases for name, bases in classes.items() if is_exception(name)}


EXCEPTIONS = exception_classes()


@pytest.mark.parametrize("name", sorted(EXCEPTIONS))
def test_exceptions_are_one_tree(name: str) -> None:
    def is_below(each: str) -> bool:
        return each == TREE or any(map(is_below, EXCEPTIONS.get(each, ())))

    assert name.endswith("Error")
    assert is_below(name) or name in OUTSIDE


# -- the JVM ---------------------------------------------------------------------------------------

JVM = "lake/jvm.py"
PRIVATE = {"_jvm", "_jsc", "_gateway", "_jdf", "_jsparkSession", "_jconf", "_jseq", "_jmap", "_sc"}
"""Attributes of PySpark that lead to objects of Java."""


@pytest.mark.parametrize("module", sorted(MODULES.keys() - {JVM}))
def test_one_module_talks_to_the_jvm(module: str) -> None:
    attributes = {n.attr for n in ast.walk(MODULES[module]) if isinstance(n, ast.Attribute)}
    imported = {n.module for n in ast.walk(MODULES[module]) if isinstance(n, ast.ImportFrom)}
    assert not attributes & PRIVATE
    assert "py4j.java_gateway" not in imported
