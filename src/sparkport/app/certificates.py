"""A self-signed certificate, for a try of TLS before there is a real one."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sparkport.errors import ConfigError
from sparkport.flight.transport.tls import TlsFiles

_CLOCKS_DIFFER = timedelta(minutes=5)


def write_certificate(folder: Path, hosts: Sequence[str], days: int) -> TlsFiles:
    """Write `cert.pem` and `key.pem` for these names and addresses of a server, and return where.

    Raises ConfigError for a host that can be neither, and OSError, also if one of the files exists.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(key, hosts, timedelta(days=days))
    files = TlsFiles(folder / "cert.pem", folder / "key.pem")
    folder.mkdir(parents=True, exist_ok=True)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write_new(files.key, private, 0o600)
    try:
        _write_new(files.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    except OSError:
        files.key.unlink()
        raise
    return files


def _certificate(key: ec.EllipticCurvePrivateKey, hosts: Sequence[str], valid: timedelta) -> x509.Certificate:
    try:
        names = [_name(host) for host in hosts]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    except ValueError as error:
        raise ConfigError(f"not the name or address of a server: {error}") from error
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        if not host or host != host.strip() or "/" in host:
            raise ValueError(repr(host)) from None
        return x509.DNSName(host)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that does not exist yet, for nobody else to read from its first moment on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
