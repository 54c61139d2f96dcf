"""S3 and Glue on this machine: moto's server in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Self

from icestream.dev.child import HOST, Child, connects, free_ports

REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": REGION}


class AwsServer:
    """One endpoint that answers as S3, Glue and STS; forgets everything when it stops."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self._child: Child | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def client(self, service: str) -> Any:
        import boto3  # slow, and most runs never ask

        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def bucket(self, name: str) -> str:
        """Makes a bucket and returns its address."""
        self.client("s3").create_bucket(Bucket=name)
        return f"s3://{name}"

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self.port)]
        self._child = Child("moto", command, self.folder / "moto.log")
        if not self._child.ready(lambda: connects(self.port), timeout=60):
            self._child.stop()
            raise self._child.failure()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._child is not None:
            self._child.stop()
