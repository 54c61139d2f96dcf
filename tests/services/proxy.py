"""A TCP proxy on loopback between a client and a server, which can be made to fail."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal, Self

from icestream.dev.child import HOST

Mode = Literal["pass", "refuse", "lose answers"]


class Proxy:
    """Passes connections on to a port. Modes: `pass`; `refuse` closes every connection; `lose answers` delivers POST
    requests and closes the connection when the answer comes, which nobody gets."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.mode: Mode = "pass"
        self.lost = 0
        """Answers that were lost."""
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def uri(self) -> str:
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if self.mode == "refuse":
                return
            with socket.create_connection((HOST, self.target)) as server:
                state = {"posts": False}
                answers = threading.Thread(
                    target=self._answer, args=(server, client, state), daemon=True
                )
                answers.start()
                while data := client.recv(65536):
                    if self.mode == "refuse":
                        break
                    state["posts"] = data.startswith(b"POST") or (
                        state["posts"] and not data.startswith((b"GET", b"HEAD"))
                    )
                    server.sendall(data)
                client.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket, state: dict[str, bool]) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if self.mode == "lose answers" and state["posts"]:
                    self.lost += 1
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
