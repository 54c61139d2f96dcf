"""A certificate authority for an afternoon: keys and certificates for 127.0.0.1 as PEM files."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make(folder: Path) -> tuple[Path, Path]:
    """(the authority's certificate, the server's key and certificate in one file)."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _sign("test authority", authority_key.public_key(), authority_key, None)
    server_key = ec.generate_private_key(ec.SECP256R1())
    server = _sign("127.0.0.1", server_key.public_key(), authority_key, authority)
    pem = serialization.Encoding.PEM
    trusted, keystore = folder / "ca.pem", folder / "server.pem"
    trusted.write_bytes(authority.public_bytes(pem))
    private = server_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    keystore.write_bytes(private + server.public_bytes(pem))
    return trusted, keystore


def _sign(name, public_key, signer, issuer) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(signer, hashes.SHA256())
