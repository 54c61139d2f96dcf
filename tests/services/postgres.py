"""A real PostgreSQL server for tests: started on a free port, thrown away afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def _binaries() -> Path:
    """The directory of initdb and pg_ctl: on the PATH, or where Debian puts the newest version."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3])
    )
    assert versions, "PostgreSQL is not installed: apt-get install postgresql"
    return versions[-1].parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class PostgresServer:
    """One server with its own data directory. `dsn` connects to its `postgres` database as superuser."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="icestream-postgres-"))
        self.port = _free_port()
        self.dsn = f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def start(self) -> None:
        """Initialise and start; logical decoding is on. A server cannot run as root, so root becomes postgres."""
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
        data = str(self.directory / "data")
        self._run(
            "initdb",
            "-D",
            data,
            "-A",
            "trust",
            "-U",
            "postgres",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        )
        settings = {
            "port": str(self.port),
            "listen_addresses": "'127.0.0.1'",
            "unix_socket_directories": f"'{self.directory}'",
            "wal_level": "logical",
            "fsync": "off",
            "timezone": "'UTC'",
            "jit": "off",
        }
        lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
        with (self.directory / "data" / "postgresql.conf").open("a") as conf:
            conf.write(lines)
        self._run("pg_ctl", "-D", data, "-l", str(self.directory / "log"), "-w", "start")

    def stop(self) -> None:
        """Stop at once and remove everything."""
        self._run("pg_ctl", "-D", str(self.directory / "data"), "-m", "immediate", "stop")
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, program: str, *args: str) -> None:
        command = [str(_binaries() / program), *args]
        if os.geteuid() == 0:
            command = [
                "setpriv",
                "--reuid=postgres",
                "--regid=postgres",
                "--init-groups",
                "--reset-env",
                *command,
            ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.directory)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.stop()
