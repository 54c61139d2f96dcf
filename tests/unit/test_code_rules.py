"""Rules of the code that no linter has: one tree of exceptions, one module that talks to the JVM, no
state at module level."""

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


# -- state -----------------------------------------------------------------------------------------

STATEFUL = {
    "Counter", "ContextVar", "KnownSecrets", "OrderedDict", "Recent", "WeakKeyDictionary", "WeakSet",
    "WeakValueDictionary", "count", "cycle", "defaultdict", "deque", "dict", "list", "local", "set",
}  # fmt: skip
"""What makes something that changes. `lru_cache` is not among them: it keeps what a pure function gives."""
CHANGES = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "keep", "pop", "popitem", "popleft",
    "remove", "set", "setdefault", "sort", "update",
}  # fmt: skip
PROCESS_WIDE = {
    ("faults.py", "_reached"): "how often a test's fault point was reached in this process",
    ("interrupts.py", "_CURRENT"): "a context variable: each thread has its own statement",
    (
        "lake/runs.py",
        "_opened",
    ): "files that a Python worker of Spark has mapped: nothing there outlives a task",
    (
        "lake/small.py",
        "_files",
    ): "data files, which never change; shared by the pipeline and subscriptions",
    ("lake/vectors.py", "_recent"): "deletion vectors, which never change; shared as well",
    (
        "secrecy.py",
        "KNOWN",
    ): "values to mask in every text that leaves the process, whoever made it",
}
"""State that belongs to the process, and why."""


def module_values(tree: ast.Module) -> dict[str, ast.expr]:
    """What the names of a module are bound to."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            found |= {n.id: node.value for n in node.targets if isinstance(n, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found[node.target.id] = node.value
    return found


def changed_names(tree: ast.Module) -> set[str]:
    """The names whose values a module changes in place: x[…] = …, x.append(…), del x[…], module.x.append(…)."""
    found: set[ast.expr] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in CHANGES:
                found.add(value)
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                found.add(value)
    bare = {n.id for n in found if isinstance(n, ast.Name)}
    return bare | {
        n.attr
        for n in found
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id != "self"
    }


def is_stateful(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in STATEFUL


def local_names(tree: ast.Module) -> set[str]:
    """Names that functions bind themselves, also as parameters."""
    found: set[str] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found.add(node.id)
                elif isinstance(node, ast.arg):
                    found.add(node.arg)
    return found


@pytest.mark.parametrize("module", sorted(MODULES))
def test_modules_have_no_state(module: str) -> None:
    tree = MODULES[module]
    assert not [n.names for n in ast.walk(tree) if isinstance(n, ast.Global)]
    values = module_values(tree)
    stateful = {name for name, value in values.items() if is_stateful(value)}
    plain = {
        n
        for n, v in values.items()
        if isinstance(v, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)
    }
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("icestream")
        for alias in node.names
        if alias.name.isupper()
    }
    changed = (changed_names(tree) & (plain | imported)) - local_names(tree)
    frozen = {
        name for name in stateful if name.isupper() and ast.unparse(values[name].func) == "dict"
    }
    assert {(module, n) for n in (stateful - frozen) | changed} <= PROCESS_WIDE.keys()


def test_process_wide_state_is_there() -> None:
    assert all(name in module_values(MODULES[module]) for module, name in PROCESS_WIDE)
