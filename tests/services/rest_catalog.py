"""An Iceberg REST catalog server: Iceberg's own test fixture, over a catalog in an SQLite file.

The fixture has no option for its address and listens on all interfaces, on a free port.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from icestream.dev.child import HOST, Child, free_ports
from icestream.dev.jars import class_path, pyspark_home, resolve
from icestream.dev.java import find_java


class RestCatalogServer:
    """A REST catalog whose tables live in `folder/warehouse`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warehouse = folder / "warehouse"
        (self.port,) = free_ports(1)
        self._child: Child | None = None

    @property
    def uri(self) -> str:
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self.warehouse.mkdir(parents=True, exist_ok=True)
        hadoop = sorted((pyspark_home() / "jars").glob("hadoop-client-*.jar"))
        command = [
            str(find_java().executable),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", class_path([*resolve("rest-fixture"), *hadoop])),
            "org.apache.iceberg.rest.RESTCatalogServer",
        ]
        environment = {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_URI": f"jdbc:sqlite:{self.folder}/catalog.db?busy_timeout=10000",
            "CATALOG_CLIENTS": "1",
            "CATALOG_WAREHOUSE": f"file://{self.warehouse}",
        }
        self._child = Child("REST catalog", command, self.folder / "server.log", environment)
        if not self._child.ready(self._answers, timeout=60):
            self._child.stop()
            raise self._child.failure()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._child is not None:
            self._child.stop()

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.uri}/v1/config", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False
