"""Who is calling."""

from __future__ import annotations

import base64
import binascii
import hmac
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from sparkport.catalog.call import ANONYMOUS
from sparkport.catalog.principal import Principal, WayIn
from sparkport.errors import UnauthenticatedError


class Authenticator(Protocol):
    """Turns the `authorization` header into a principal."""

    @abstractmethod
    def authenticate(self, authorization: str | None) -> str:
        """Return the principal: a name, or a `Principal` with roles. Raises UnauthenticatedError."""
        raise NotImplementedError


@runtime_checkable
class Revocable(Protocol):
    """An authenticator whose credentials may end while a call runs."""

    @abstractmethod
    def still_admits(self, principal: str, authorization: str) -> bool:
        """Return whether the header that has admitted the principal would do so now."""
        raise NotImplementedError


class PasswordAuthenticator(Authenticator):
    """An authenticator of users with passwords, who may be wrong only so often."""

    @abstractmethod
    def authenticate_from(self, authorization: str | None, connection: str) -> str:
        """Return the principal that calls from an address, as gRPC says it.

        Raises UnauthenticatedError, and LimitExceededError after too many failures.
        """
        raise NotImplementedError

    @abstractmethod
    def session_token(self, authorization: str) -> str | None:
        """Return a token to use instead of the password, None if the header was not that of a user."""
        raise NotImplementedError


class NoAuth(Authenticator):
    """Lets everyone in; only for a server that listens on loopback."""

    def authenticate(self, authorization: str | None) -> str:
        """Return the same principal for every caller."""
        del authorization
        return ANONYMOUS


class NobodyElse(Authenticator):
    """Lets nobody in, and says what is needed."""

    def authenticate(self, authorization: str | None) -> str:
        """Raise UnauthenticatedError."""
        raise _refused(token(authorization or ""))


class BearerTokens(Authenticator):
    """Knows a set of tokens, each with the principal it stands for.

    A token may also come as the password of HTTP Basic, which is how Flight
    clients with a user name log in.
    """

    def __init__(self, principals: Mapping[str, str]) -> None:
        if not all(principals):
            raise ValueError("a token must not be empty")
        self._principals = {text.encode(): principal for text, principal in principals.items()}

    def authenticate(self, authorization: str | None) -> str:
        """Return the principal of the token."""
        given = token(authorization or "")
        principal = None
        # Every token is compared, in constant time each, so that timing tells nothing.
        for valid_token, owner in self._principals.items():
            if hmac.compare_digest(valid_token, given):
                principal = Principal(owner, way_in=WayIn.TOKEN)
        if principal is None:
            raise _refused(given)
        return principal


_HOW_TO = (
    "A token is needed. In DuckDB the scans use a secret whose SCOPE is the server's location:"
    " CREATE SECRET (TYPE airport, auth_token '...', SCOPE 'grpc://host:port')"
)


def _refused(given: bytes) -> UnauthenticatedError:
    return UnauthenticatedError(_HOW_TO if not given else "the token is not valid. " + _HOW_TO)


def authenticating(authenticator: Authenticator) -> Callable[[str | None, str], str]:
    """Return a function of a header and the address of its connection that returns the principal."""
    if isinstance(authenticator, PasswordAuthenticator):
        return authenticator.authenticate_from
    return lambda authorization, _: authenticator.authenticate(authorization)


def token(authorization: str) -> bytes:
    """Return the token of a Bearer header, or the password of a Basic one; empty without."""
    scheme, _, credentials = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return credentials.strip().encode()
    return basic(authorization)[1]


def basic(authorization: str) -> tuple[bytes, bytes]:
    """Return user and password of a Basic header; both empty without."""
    scheme, _, credentials = authorization.strip().partition(" ")
    if scheme.lower() != "basic":
        return b"", b""
    credentials = credentials.strip()
    try:
        # Some Flight clients leave the padding out.
        decoded = base64.b64decode(credentials + "=" * (-len(credentials) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b"", b""
    name, _, password = decoded.partition(b":")
    return name, password


def basic_header(name: str, password: str) -> str:
    """Return the Basic header of a user."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
