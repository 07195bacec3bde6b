"""Who may call, by a file with tokens that may change while the server runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sparkport.app.authentication.credential_file import WatchedCredentials
from sparkport.app.authentication.tokens import TokenFile, digest
from sparkport.catalog.principal import Principal, WayIn
from sparkport.errors import UnauthenticatedError
from sparkport.flight.transport.auth import Authenticator, Revocable, token


def _now() -> datetime:
    return datetime.now(UTC)


class TokenFileAuthenticator(Authenticator, Revocable):
    """Knows the tokens of a file, as it is at the moment of each call, and those of another authenticator."""

    def __init__(self, file: TokenFile, other: Authenticator, clock: Callable[[], datetime] = _now) -> None:
        """Read the file. Raises ConfigError."""
        self._tokens = WatchedCredentials(file)
        self._other = other
        self._clock = clock

    def authenticate(self, authorization: str | None) -> str:
        """Return the name of the token. Raises UnauthenticatedError."""
        # Looked up by a hash: how long that takes tells about the hash, and nothing about a valid token.
        given = token(authorization or "")
        stored = self._tokens.current().get(digest(given)) if given else None
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
