"""Finds the Java that runs Spark and the embedded broker: JAVA_HOME first, then PATH.

What comes out is an executable whose major version is known to be enough, or a `ConfigError`
that says what to install. Spark itself looks in the same order, so both agree.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from icestream.errors import ConfigError

MINIMUM = 17
"""The oldest Java that Spark 4 and Kafka 4 run on."""

NEWEST_KNOWN = 21
"""The newest Java that Spark 4.0 is released for; newer ones may work."""

REMEDY = (
    f"install Java {MINIMUM} (on Debian: apt-get install openjdk-{MINIMUM}-jre-headless) "
    f"or set JAVA_HOME to one"
)


@dataclass(frozen=True)
class Java:
    """A usable Java: its executable, major version and the version as it prints it."""

    executable: Path
    major: int
    version: str

    def __str__(self) -> str:
        return f"Java {self.version} at {self.executable}"


def find_java(minimum: int = MINIMUM) -> Java:
    """The Java of JAVA_HOME, else of PATH. Raises ConfigError if there is none or it is too old."""
    executable = _executable()
    try:
        done = subprocess.run(
            [str(executable), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{executable} does not run: {error}", remedy=REMEDY) from error
    version = parse_version(done.stderr + done.stdout)
    if version is None:
        raise ConfigError(f"{executable} -version printed no version", remedy=REMEDY)
    major = major_of(version)
    if major < minimum:
        raise ConfigError(f"{executable} is Java {version}, older than {minimum}", remedy=REMEDY)
    return Java(executable, major, version)


def parse_version(text: str) -> str | None:
    """The version in the output of `java -version`, such as 17.0.15 or 1.8.0_402."""
    found = re.search(r'version "([^"]+)"', text)
    return found.group(1) if found else None


def major_of(version: str) -> int:
    """17 for 17.0.15 and for 17-ea, 8 for 1.8.0_402."""
    numbers = [int(n) for n in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _executable() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not executable.is_file():
            raise ConfigError(f"JAVA_HOME is {home}, which has no bin/java", remedy=REMEDY)
        return executable
    found = shutil.which("java")
    if found is None:
        raise ConfigError("no Java found: JAVA_HOME is not set, PATH has no java", remedy=REMEDY)
    return Path(found)


if __name__ == "__main__":
    try:
        print(find_java())
    except ConfigError as error:
        sys.exit(f"error: {error}")
