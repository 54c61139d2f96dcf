"""The engine's own Java classes, as a small jar: a file system whose files are durable once they are closed, a counter of
failed expressions, checks that end cancelled tasks and find large records, and regular expressions with a limit of steps
(`java/*.java`).

The jar is part of the package, so that nobody needs a compiler. `python -m icestream.runtime.java_library` builds it again;
it holds a hash of the sources, by which a test tells whether it is up to date.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from icestream.dev import jars

FILE_SYSTEM = "icestream.SyncedLocalFileSystem"
FOLDER = Path(__file__).with_name("java")
JAR = FOLDER / "icestream.jar"
_HASH = "META-INF/source.sha256"


def sources() -> list[Path]:
    """The source files."""
    return sorted(FOLDER.glob("*.java"))


def hash_sources() -> str:
    """The hash of the sources."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources())).hexdigest()


def built_from() -> str:
    """The hash of the sources that the jar was built from."""
    with zipfile.ZipFile(JAR) as jar:
        return jar.read(_HASH).decode()


def build() -> None:
    """Compile the sources with the JDK's compiler, into a jar whose bytes depend on nothing else."""
    javac = shutil.which("javac")
    if javac is None:
        sys.exit("javac is not there: install a JDK")
    spark = sorted((jars.pyspark_home() / "jars").glob("*.jar"))
    path = os.pathsep.join(map(str, [*jars.resolve("engine"), *spark]))
    with tempfile.TemporaryDirectory() as made:
        options = ["--release", "17", "-proc:none", "-g:none", "-cp", path, "-d", made]
        subprocess.run([javac, *options, *map(str, sources())], check=True)
        with zipfile.ZipFile(JAR, "w", zipfile.ZIP_DEFLATED) as jar:
            jar.writestr(zipfile.ZipInfo(_HASH), hash_sources())
            for each in sorted(Path(made).rglob("*.class")):
                jar.writestr(zipfile.ZipInfo(str(each.relative_to(made))), each.read_bytes())


if __name__ == "__main__":
    build()
