"""`icestream serve`: a long-running engine that speaks PostgreSQL's wire protocol."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icestream.cli.arguments import (
    add_allow_path,
    add_engine,
    allowed_paths,
    home_of,
    settings_of,
)
from icestream.config import Home
from icestream.engine import Engine
from icestream.errors import ConfigError
from icestream.observe.serving import Serving, withdraw
from icestream.observe.serving import announce as write

if TYPE_CHECKING:
    from icestream.server.listener import Listener

PASSWORD = "ICESTREAM_PASSWORD"


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "serve", help="run the pipeline and answer psql and other clients", description=__doc__
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="where to listen (default: %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=4566, help="default: %(default)s; 0: any free one"
    )
    parser.add_argument("--user", default="root", help="who may connect (default: %(default)s)")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key, PEM")
    parser.add_argument(
        "--take-over", action="store_true", help="fence off a process that still runs on this home"
    )
    add_allow_path(parser, default=None)
    add_engine(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from icestream.server.listener import Listener
    from icestream.server.service import Service

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    home, told = home_of(args), lambda text: print(text, flush=True)
    certificate, allowed = tls(args), access(args)
    check_port(args.host, args.port)
    with Engine(
        home,
        settings_of(args),
        told,
        take_over=args.take_over,
        allow_paths=allowed_paths(args),
    ) as engine:
        service = Service(engine, on_end=stop.set)
        service.start(stop)
        try:
            with Listener(
                service, host=args.host, port=args.port, access=allowed, tls=certificate
            ) as listener:
                host, port = listener.address
                announce(listener, home, args)
                print(f"ready: psql -h {host} -p {port} -U {args.user} dev", flush=True)
                stop.wait()
        finally:
            withdraw(home, os.getpid())
            service.stop()
        if service.failed is not None:
            raise service.failed
    return 0


def check_port(host: str, port: int) -> None:
    """Whether there is room to listen: better found before anything is started or taken over."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            remedy="stop what listens there, or choose another --port",
        ) from error


def announce(listener: Listener, home: Home, args: argparse.Namespace) -> None:
    """Tell other commands where the home is served, and how many are connected."""
    host, port = listener.address
    serving = Serving(host, port, args.user, os.getpid(), args.tls_cert is not None)
    try:
        write(home, serving)
    except OSError as error:  # the disk is full: clients that know the port can connect
        print(f"server.json cannot be written: {error.strerror or error}", flush=True)
    listener.on_clients = lambda clients: write(home, replace(serving, clients=clients))


def access(args: argparse.Namespace) -> Any:
    """Who may come in: anybody on loopback without a password, else who knows it."""
    from icestream.server.auth import Access, derive_keys, hash_certificate

    password = os.environ.get(PASSWORD)
    if password:
        certificate = hash_certificate(args.tls_cert.read_bytes()) if args.tls_cert else None
        return Access({args.user: derive_keys(password)}, certificate)
    if args.host not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigError(
            f"serving on {args.host} needs a password",
            remedy=f"set {PASSWORD} in the environment, or listen on 127.0.0.1",
        )
    return None


def tls(args: argparse.Namespace) -> ssl.SSLContext | None:
    """The certificate to show, if one is given."""
    if args.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(args.tls_cert, args.tls_key)
    except OSError as error:
        raise ConfigError(f"the certificate cannot be read: {error.strerror or error}") from error
    return context
