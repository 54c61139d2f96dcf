"""SCRAM-SHA-256 with and without channel binding: RFC 7677's example, and what is refused."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from scramp import ScramClient, ScramMechanism

from icestream.errors import ConfigError
from icestream.server.auth import (
    BOUND_MECHANISM,
    MECHANISM,
    Access,
    ScramExchange,
    derive_keys,
    hash_certificate,
)
from icestream.server.backend import StateError
from icestream.server.messages import ProtocolError
from tests.services import certificates

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
HASH = bytes(range(32))
BINDING = ("tls-server-end-point", HASH)


def exchange(password: str = "pencil", certificate_hash: bytes | None = None) -> ScramExchange:
    keys = ScramMechanism(MECHANISM).make_auth_info(password, salt=SALT)
    return ScramExchange("user", keys, certificate_hash, NONCE)


def log_in(server: ScramExchange, client: ScramClient) -> None:
    """The whole exchange; the client checks the server's signature."""
    first = client.get_client_first().encode()
    client.set_server_first(server.begin(client.mechanism_name, first).decode())
    client.set_server_final(server.finish(client.get_client_final().encode()).decode())


def test_the_example_of_rfc_7677() -> None:
    scram = exchange()
    assert scram.begin(MECHANISM, FIRST) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert scram.finish(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_wrong_password_and_an_unknown_user() -> None:
    access = Access({"root": derive_keys("pencil")})
    for user, password in (("root", "pen"), ("eve", "pencil")):
        server = access.start_exchange(user, "::1", encrypted=False)
        with pytest.raises(StateError, match=f'failed for user "{user}"') as caught:
            log_in(server, ScramClient([MECHANISM], user, password))
        assert caught.value.code == "28P01"
    log_in(access.start_exchange("root", "::1", False), ScramClient([MECHANISM], "other", "pencil"))


def test_an_unknown_user_looks_like_a_known_one() -> None:
    access = Access({"root": derive_keys("pencil")})
    challenges = {
        user: {
            access.start_exchange(user, "::1", encrypted=False)
            .begin(MECHANISM, FIRST)
            .split(b",")[1]
            for _ in range(3)
        }
        for user in ("root", "eve", "mallory")
    }
    assert [len(salts) for salts in challenges.values()] == [1, 1, 1]
    assert len(set.union(*challenges.values())) == 3
    assert len({len(salt) for salts in challenges.values() for salt in salts}) == 1


def test_channel_binding_is_offered_over_tls_only() -> None:
    access = Access({"root": derive_keys("pencil")}, HASH)
    assert access.start_exchange("root", "::1", encrypted=False).mechanisms == (MECHANISM,)
    bound = access.start_exchange("root", "::1", encrypted=True)
    assert bound.mechanisms == (BOUND_MECHANISM, MECHANISM)
    log_in(bound, ScramClient(bound.mechanisms, "root", "pencil", BINDING))
    log_in(access.start_exchange("root", "::1", True), ScramClient([MECHANISM], "root", "pencil"))


def test_a_binding_to_another_certificate() -> None:
    stranger = ScramClient([BOUND_MECHANISM], "user", "pencil", (BINDING[0], bytes(32)))
    with pytest.raises(StateError, match="channel binding check failed") as caught:
        log_in(exchange(certificate_hash=HASH), stranger)
    assert caught.value.code == "28000"


def test_a_downgrade_is_noticed() -> None:
    with pytest.raises(StateError, match="negotiation") as caught:
        exchange(certificate_hash=HASH).begin(MECHANISM, FIRST.replace(b"n,,", b"y,,", 1))
    assert caught.value.code == "28000"
    assert exchange().begin(MECHANISM, FIRST.replace(b"n,,", b"y,,", 1))


def test_bindings_that_are_not_there() -> None:
    for header in (b"p=tls-server-end-point,,", b"p=tls-unique,,"):
        with pytest.raises(StateError, match="channel binding") as caught:
            exchange().begin(MECHANISM, FIRST.replace(b"n,,", header, 1))
        assert caught.value.code == "0A000"
    with pytest.raises(StateError, match="channel binding"):
        exchange(certificate_hash=HASH).begin(
            BOUND_MECHANISM, FIRST.replace(b"n,,", b"p=tls-unique,,", 1)
        )
    for scram, mechanism in ((exchange(), BOUND_MECHANISM), (exchange(), "PLAIN")):
        with pytest.raises(ProtocolError, match="not offered"):
            scram.begin(mechanism, FIRST)


@pytest.mark.parametrize("data", [b"", b"\xff", b"n,,", b"x,,n=,r=a", b"n,,r=a", b"n,,n=a,r="])
def test_malformed_first_messages(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        exchange().begin(MECHANISM, data)


@pytest.mark.parametrize(
    "data", [b"", b"\xff", FINAL.replace(b"r=r", b"r=R"), FINAL[:40], FINAL[:-45] + b"!"]
)
def test_malformed_final_messages(data: bytes) -> None:
    scram = exchange()
    scram.begin(MECHANISM, FIRST)
    with pytest.raises(ProtocolError):
        scram.finish(data)


@pytest.mark.parametrize("proof", [b"p=AA==", b"p=" + base64.b64encode(bytes(33))])
def test_proofs_of_another_length(proof: bytes) -> None:
    scram = exchange()
    scram.begin(MECHANISM, FIRST)
    with pytest.raises(StateError, match="failed"):
        scram.finish(FINAL[: FINAL.index(b"p=")] + proof)


def test_keys_are_not_shown() -> None:
    keys = derive_keys("pencil")
    assert str(keys[1]) not in repr(Access({"root": keys}))
    assert derive_keys("a") != derive_keys("a")


def test_passwords_are_prepared_as_rfc_4013_says() -> None:
    for stored, typed in (("I\u00adX", "IX"), ("\u00aa", "a"), ("a\u00a0b", "a b")):
        log_in(exchange(stored), ScramClient([MECHANISM], "user", typed))
    with pytest.raises(ConfigError, match="SASLprep"):
        derive_keys("a\u0007")


def test_the_hash_of_a_certificate(tmp_path: Path) -> None:
    _, file = certificates.make(tmp_path)
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    comment = "# naïve\n".encode()
    assert hash_certificate(comment + file.read_bytes()) == certificate.fingerprint(hashes.SHA256())


def test_trust_ends_at_the_machine() -> None:
    access = Access()
    for near in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"):
        assert access.start_exchange("root", near, encrypted=False) is None
    for far in ("10.0.0.1", "2001:db8::1", ""):
        with pytest.raises(StateError, match="own machine"):
            access.start_exchange("root", far, encrypted=False)
