"""Frames: strict on the way in."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icestream.server import messages as m
from tests.unit.server import frames


def read(data: bytes) -> m.Message | None:
    return m.message(bytearray(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (frames.query("select 1"), m.Query(b"select 1")),
        (frames.parse("select $1", "s", (23,)), m.Parse("s", b"select $1", (23,))),
        (
            frames.bind(b"1", None, portal="p", name="s", formats=(1,), results=(0, 1)),
            m.Bind("p", "s", (1,), (b"1", None), (0, 1)),
        ),
        (frames.describe("S", "s"), m.Describe("S", "s")),
        (frames.execute("p", 7), m.Execute("p", 7)),
        (frames.close("P", "p"), m.Close("P", "p")),
        (frames.SYNC, m.Sync()),
        (frames.FLUSH, m.Flush()),
        (frames.TERMINATE, m.Terminate()),
        (frames.frame(b"p", b"secret\0"), m.Password(b"secret\0")),
        (frames.frame(b"F", bytes(10)), m.FunctionCall()),
        (frames.frame(b"d", b"1\n"), m.CopyInput()),
    ],
)
def test_what_clients_send(data: bytes, message: m.Message) -> None:
    buffer = bytearray(data + b"Q")
    assert m.message(buffer) == message
    assert buffer == b"Q"
    for end in range(len(data)):
        assert read(data[:end]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"Y\0\0\0\4",
        b"Q\0\0\0\3",
        b"Q\xff\xff\xff\xff",
        b"Q\x7f\xff\xff\xff",
        b"S\0\x10\0\0",
        frames.frame(b"S", b"x"),
        frames.frame(b"Q", b"no end"),
        frames.frame(b"Q", b"a\0b"),
        frames.frame(b"D", b"Xname\0"),
        frames.frame(b"B", b"\0\0\0\0\0\1\0\0\0\xff\0\0"),
        frames.frame(b"B", b"\0\0\0\0\0\1\xff\xff\xff\xfe\0\0"),
        frames.frame(b"P", b"\0select 1\0\0\5"),
        frames.frame(b"E", b"\0\0\0"),
    ],
)
def test_broken_messages(data: bytes) -> None:
    with pytest.raises(m.ProtocolError):
        read(data)


def test_starts() -> None:
    buffer = bytearray(frames.startup(user="root", database="dev"))
    assert m.first(buffer) == m.Startup(m.PROTOCOL, {"user": "root", "database": "dev"})
    assert not buffer
    assert m.first(bytearray(struct.pack("!ii", 8, m.SSL))) == m.EncryptionRequest(tls=True)
    assert m.first(bytearray(struct.pack("!ii", 8, m.GSS))) == m.EncryptionRequest(tls=False)
    assert m.first(bytearray(struct.pack("!iiii", 16, m.CANCEL, 1, 2))) == m.CancelRequest(1, 2)
    assert m.first(bytearray(b"\0\0\0")) is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0",
        struct.pack("!i", 7),
        struct.pack("!i", 10_001),
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!iii", 12, m.SSL, 0),
        struct.pack("!iii", 12, m.CANCEL, 0),
        struct.pack("!ii", 13, m.PROTOCOL) + b"user\0",
        struct.pack("!ii", 10, m.PROTOCOL) + b"\0\0",
    ],
)
def test_broken_starts(data: bytes) -> None:
    with pytest.raises(m.ProtocolError):
        m.first(bytearray(data))


@given(st.binary(max_size=60))
def test_any_bytes_are_messages_or_an_error(data: bytes) -> None:
    for cut in (m.first, m.message):
        with contextlib.suppress(m.ProtocolError):
            buffer = bytearray(data)
            while cut(buffer):
                pass


def test_what_the_server_sends() -> None:
    assert m.data_row([b"a", None]) == frames.frame(b"D", b"\0\2\0\0\0\1a\xff\xff\xff\xff")
    assert m.data_row([]) == frames.frame(b"D", b"\0\0")
    assert m.ready("I") == b"Z\0\0\0\5I"
    assert m.error_response([("S", "ERROR"), ("M", "a\0b")]) == frames.frame(
        b"E", b"SERROR\0Mab\0\0"
    )
    assert m.copy_out(0, 2) == frames.frame(b"H", b"\0\0\2\0\0\0\0")
    assert m.key_data(1, 2**32 - 1) == frames.frame(b"K", b"\0\0\0\1\xff\xff\xff\xff")
    field = m.Field("a", 23, 4, -1, 0)
    assert m.row_description([field]) == frames.frame(
        b"T", b"\0\1a\0" + bytes(6) + b"\0\0\0\x17\0\4\xff\xff\xff\xff\0\0"
    )
