"""The classes that a session loads, archived once, so that every later JVM maps them instead of parsing jars.

It halves the time to start. The archive is a cache: without it, or with one that does not fit (another Java, other
jars), the JVM starts as it always does. `python -m icestream.cli.classes` makes it; `make` does so.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from icestream.dev import jars
from icestream.dev.java import find_java
from icestream.runtime import java_library


def archive() -> Path:
    """Where the archive for this Java, this PySpark and these jars is, or will be."""
    engine = jars.lookup("engine").folder
    java = find_java()
    own = java_library.built_from() if java_library.JAR.exists() else ""
    parts = (java.version, str(java.executable.resolve()), str(jars.pyspark_home()), engine, own)
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return jars.cache_dir() / f"classes-{digest}.jsa"


def options(path: Path | None, record: Path | None = None) -> str:
    """JVM options that use the archive at `path` if there is one, or `record` a new one."""
    if record is not None:
        return f" -XX:ArchiveClassesAtExit={record} -Xlog:disable"
    if path is None or not path.exists():
        return ""
    return f" -XX:SharedArchiveFile={path} -Xshare:auto -Xlog:disable"
