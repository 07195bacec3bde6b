"""Who may call, by a file with tokens that may change while the server runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import structlog

from sparkport.app.tokens import StoredToken, TokenFile, digest
from sparkport.catalog.principal import Principal, WayIn
from sparkport.errors import ConfigError, UnauthenticatedError
from sparkport.flight.transport.auth import Authenticator, Revocable, token
from sparkport.toolkit.file_stamps import FileStamp, file_stamp

_log = structlog.get_logger("sparkport")


def _now() -> datetime:
    return datetime.now(UTC)


class TokenFileAuthenticator(Authenticator, Revocable):
    """Knows the tokens of a file, as it is at the moment of each call, and those of another authenticator.

    A file that cannot be read lets nobody in: it may have been changed to keep somebody out.
    """

    def __init__(self, file: TokenFile, other: Authenticator, clock: Callable[[], datetime] = _now) -> None:
        """Read the file. Raises ConfigError."""
        self._file = file
        self._other = other
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp = file_stamp(file.path)
        self._tokens = _by_digest(file)

    def authenticate(self, authorization: str | None) -> str:
        """Return the name of the token. Raises UnauthenticatedError."""
        # Looked up by a hash: how long that takes tells about the hash, and nothing about a valid token.
        given = token(authorization or "")
        stored = self._current().get(digest(given)) if given else None
        if stored is None:
            return self._other.authenticate(authorization)
        if not stored.is_valid_at(self._clock()):
            raise UnauthenticatedError("the token has expired; ask for a new one")
        return Principal(stored.name, stored.roles, WayIn.TOKEN)

    def still_admits(self, principal: str, authorization: str) -> bool:
        """Return whether the token is still there and has not expired."""
        try:
            return self.authenticate(authorization) == principal
        except UnauthenticatedError:
            return False

    def _current(self) -> Mapping[str, StoredToken]:
        stamp = file_stamp(self._file.path)
        if stamp != self._stamp:
            with self._lock:
                self._reload(stamp)
        return self._tokens

    def _reload(self, stamp: FileStamp | None) -> None:
        if stamp == self._stamp:
            return
        try:
            self._tokens = _by_digest(self._file)
            _log.info("tokens reloaded", file=str(self._file.path), tokens=len(self._tokens))
        except ConfigError as error:
            self._tokens = {}
            _log.error("tokens not reloaded, none is valid", error=str(error))
        self._stamp = stamp


def _by_digest(file: TokenFile) -> Mapping[str, StoredToken]:
    return {stored.sha256: stored for stored in file.read()}
