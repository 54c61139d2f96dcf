"""SCRAM-SHA-256: RFC 7677's example, and what is refused."""

from __future__ import annotations

import base64

import pytest

from icestream.server.auth import Access, Exchange, Verifier
from icestream.server.backend import StateError
from icestream.server.messages import ProtocolError

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def exchange(password: str = "pencil", known: bool = True) -> Exchange:
    return Exchange(Verifier.of(password, SALT), "user", known, NONCE)


def test_the_example_of_rfc_7677() -> None:
    scram = exchange()
    assert scram.first(FIRST) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert scram.final(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_wrong_password_and_an_unknown_user() -> None:
    for scram in (exchange("pen"), exchange(known=False)):
        scram.first(FIRST)
        with pytest.raises(StateError, match="password authentication failed") as caught:
            scram.final(FINAL)
        assert caught.value.code == "28P01"


def test_an_unknown_user_looks_like_a_known_one() -> None:
    access = Access({"root": Verifier.of("pencil")})
    salts = {access.exchange("eve", "::1").first(FIRST).split(b",")[1] for _ in range(3)}
    assert len(salts) == 1


def test_channel_binding_is_refused() -> None:
    with pytest.raises(StateError, match="channel binding") as caught:
        exchange().first(FIRST.replace(b"n,,", b"p=tls-server-end-point,,", 1))
    assert caught.value.remedy == "connect with channel_binding=disable"
    assert exchange().first(FIRST.replace(b"n,,", b"y,,", 1))


@pytest.mark.parametrize("data", [b"", b"\xff", b"n,,", b"x,,n=,r=a", b"n,,r=a", b"n,,n=a,r="])
def test_malformed_first_messages(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        exchange().first(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", FINAL.replace(b"biws", b"eSws"), FINAL.replace(b"r=r", b"r=R"), FINAL[:40]],
)
def test_malformed_final_messages(data: bytes) -> None:
    scram = exchange()
    scram.first(FIRST)
    with pytest.raises(ProtocolError):
        scram.final(data)


@pytest.mark.parametrize("proof", [b"p=!", b"p=AA==", b"p=" + base64.b64encode(bytes(33))])
def test_proofs_that_are_none(proof: bytes) -> None:
    scram = exchange()
    scram.first(FIRST)
    with pytest.raises(StateError, match="failed"):
        scram.final(FINAL[: FINAL.index(b"p=")] + proof)


def test_a_final_message_without_a_first() -> None:
    with pytest.raises(ProtocolError):
        exchange().final(FINAL)


def test_verifiers_are_kept_as_text() -> None:
    verifier = Verifier.of("pencil", SALT)
    assert Verifier.parse(str(verifier)) == verifier
    assert "pencil" not in str(verifier) + repr(verifier)
    assert str(verifier.stored_key) not in repr(verifier)
    assert Verifier.of("a") != Verifier.of("a")
    for wrong in ("pencil", "SCRAM-SHA-256$4096:AA==$AA==:AA==", "SCRAM-SHA-256$x:AA==$AA==:AA=="):
        with pytest.raises(ValueError, match="not a SCRAM"):
            Verifier.parse(wrong)


def test_passwords_are_prepared_as_rfc_4013_says() -> None:
    def same(one: str, other: str) -> bool:
        return Verifier.of(one, SALT) == Verifier.of(other, SALT)

    assert same("I\u00adX", "IX")
    assert same("\u00aa", "a")
    assert same("a\u00a0b", "a b")
    assert not same("USER", "user")
    assert same("a\u0007", "a\u0007")


def test_trust_ends_at_the_machine() -> None:
    access = Access()
    for near in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"):
        assert access.exchange("root", near) is None
    for far in ("10.0.0.1", "2001:db8::1", ""):
        with pytest.raises(StateError, match="own machine"):
            access.exchange("root", far)
