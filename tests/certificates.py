"""Certificates that the tests make: an authority, and what it signs."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


class Authority:
    """A certificate authority that keeps its files in a folder: `ca` is its own certificate."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.ca = folder / f"{name}.pem"
        usage = x509.BasicConstraints(ca=True, path_length=None)
        signs = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, self._key.public_key()).add_extension(usage, critical=True)
        builder = builder.add_extension(signs, critical=True)
        self.ca.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def sign(self, name: str) -> tuple[Path, Path]:
        """Write a certificate with this common name, for 127.0.0.1, and its key; return the files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
        hosts = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        )
        builder = self._builder(subject, key.public_key()).add_extension(hosts, critical=not name)
        cert, private = self._folder / f"{name}-cert.pem", self._folder / f"{name}-key.pem"
        cert.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM))
        private.write_bytes(
            key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return cert, private

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        # Python 3.13 and later want both key identifiers, as RFC 5280 does.
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )


def credentials(ca: Path, pair: tuple[Path, Path] | None = None) -> grpc.ChannelCredentials:
    """Return what a client needs to trust an authority, and to show a certificate of its own."""
    cert, key = (None, None) if pair is None else (file.read_bytes() for file in pair)
    return grpc.ssl_channel_credentials(ca.read_bytes(), key, cert)
