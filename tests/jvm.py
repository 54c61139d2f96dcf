"""How the JVMs of tests run."""

from __future__ import annotations

import os


def choose_quick_compiler() -> None:
    """Let the JVMs of tests use their quick compiler alone. Tests plan many small queries once: the optimizing compiler
    costs as much CPU as all else that Spark does in them (measured: 90 s of CPU with it, 47 s without)."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
