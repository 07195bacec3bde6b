"""Who uses the console: a cookie that stands for a token, which the browser itself does not keep."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from sparkport.errors import UnauthenticatedError
from sparkport.flight.transport.auth import Authenticator, PasswordAuthenticator, authenticating, basic_header

__all__ = ["Sessions"]

_SECONDS = 12 * 3600.0
_MAX_SESSIONS = 10_000


class Sessions:
    """Remembers the `authorization` header of each log-in. Safe to use from many threads.

    The header is checked again at every request, so that a token which was revoked or has expired ends its
    sessions too.
    """

    def __init__(self, authenticator: Authenticator, clock: Callable[[], float] = time.monotonic) -> None:
        self._authenticator = authenticator
        self._authenticate = authenticating(authenticator)
        self._clock = clock
        self._lock = threading.Lock()
        self._headers: OrderedDict[str, tuple[str, float]] = OrderedDict()  # the oldest first

    def log_in(self, token: str, connection: str) -> str:
        """Return the id of a new session. Raises UnauthenticatedError and LimitExceededError."""
        header = f"Bearer {token}"
        self._authenticate(header, connection)
        return self._begin(header)

    def log_in_user(self, name: str, password: str, connection: str) -> str:
        """Return the id of a new session of a user. Raises UnauthenticatedError and LimitExceededError."""
        header = basic_header(name, password)
        self._authenticate(header, connection)
        # The password itself is not kept.
        authenticator = self._authenticator
        token = (
            authenticator.session_token(header) if isinstance(authenticator, PasswordAuthenticator) else None
        )
        return self._begin(header if token is None else f"Bearer {token}")

    def _begin(self, header: str) -> str:
        session = secrets.token_urlsafe(32)
        with self._lock:
            self._headers[session] = header, self._clock() + _SECONDS
            while len(self._headers) > _MAX_SESSIONS:
                self._headers.popitem(last=False)
        return session

    def log_out(self, session: str) -> None:
        """Forget a session; to do it twice is no error."""
        with self._lock:
            self._headers.pop(session, None)

    def principal(self, session: str, authorization: str | None, connection: str) -> str:
        """Return who calls: by the header, else by the session.

        Raises UnauthenticatedError and LimitExceededError.
        """
        if authorization is None and session:
            authorization = self._header(session)
        return self._authenticate(authorization, connection)

    def count(self) -> int:
        """Return how many sessions are open."""
        with self._lock:
            now = self._clock()
            return sum(1 for _, end in self._headers.values() if end > now)

    def _header(self, session: str) -> str:
        with self._lock:
            header, end = self._headers.get(session, ("", 0.0))
            if header and end > self._clock():
                return header
            self._headers.pop(session, None)
        raise UnauthenticatedError("the session has ended; log in again")
