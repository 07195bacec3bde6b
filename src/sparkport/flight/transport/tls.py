"""The certificate of a server, and of the clients that it knows, from files that may change while it runs."""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from sparkport.errors import ConfigError
from sparkport.toolkit.file_stamps import FileStamp, file_stamp

__all__ = ["TlsFiles", "server_credentials"]

_log = structlog.get_logger("sparkport")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM format: the certificate with its chain, its key, and whose client certificates count."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    """With it every client must show a certificate that one of these authorities has signed."""


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Return credentials that follow the files: each new connection gets what they hold then.

    gRPC speaks TLS 1.2 and 1.3 only. Raises ConfigError for files that do not fit together.
    """
    current = _Current(files)
    return grpc.dynamic_ssl_server_credentials(
        current.configuration, current.renewed, require_client_authentication=files.client_ca is not None
    )


class _Current:
    """What the files held when they were last sound."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._stamp = _stamp(files)
        self.configuration = _load(files)

    def renewed(self) -> grpc.ServerCertificateConfiguration:
        """Return the present configuration; files that are missing or do not fit change nothing."""
        with self._lock:
            stamp = _stamp(self._files)
            if stamp != self._stamp:
                # Also after a failure: the files are tried again when they change again, and logged once.
                self._stamp = stamp
                try:
                    self.configuration = _load(self._files)
                    _log.info("certificate reloaded", file=str(self._files.certificate))
                except ConfigError as error:
                    _log.error("certificate not reloaded, the one before stays in use", error=str(error))
            return self.configuration


def _stamp(files: TlsFiles) -> tuple[FileStamp | None, ...]:
    paths = (files.certificate, files.key, files.client_ca)
    return tuple(None if path is None else file_stamp(path) for path in paths)


def _load(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    certificate, key = _read(files.certificate, "certificate"), _read(files.key, "key")
    authorities = None if files.client_ca is None else _read(files.client_ca, "client CA")
    _check_pair(files)
    if authorities is not None:
        _check_authorities(files, authorities)
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authorities)


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the TLS {what} file '{path}' cannot be read: {error.strerror}") from error


def _check_pair(files: TlsFiles) -> None:
    """Refuse a pair that does not fit, which gRPC would take and then fail every connection with.

    Files that change between this and the reading of them are loaded again at the next connection.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # With an empty password none is ever asked for on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=b"")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the TLS certificate '{files.certificate}' and the key '{files.key}' cannot be used:"
            " they must be a pair in PEM format, the key without a password"
        ) from error


def _check_authorities(files: TlsFiles, authorities: bytes) -> None:
    try:
        ssl.create_default_context(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"the TLS client CA file '{files.client_ca}' has no certificates in PEM format"
        ) from error
