"""Who uses the console: a cookie that stands for a token, which the browser itself does not keep."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from sparkport.errors import UnauthenticatedError
from sparkport.flight.transport.auth import Authenticator, PasswordAuthenticator, authenticating, basic_header

__all__ = ["Sessions"]

_SECONDS = 12 * 3600.0
_MAX_SESSIONS = 10_000
_MAX_OWN_SESSIONS = 100


@dataclass(frozen=True, slots=True)
class _Session:
    header: str
    principal: str
    end: float


class Sessions:
    """Remembers the `authorization` header of each log-in. Safe to use from many threads.

    The header is checked again at every request, so that a token which was revoked or has expired ends its
    sessions too. Of too many, of all or of one principal, the oldest ends.
    """

    def __init__(self, authenticator: Authenticator, clock: Callable[[], float] = time.monotonic) -> None:
        self._authenticator = authenticator
        self._authenticate = authenticating(authenticator)
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()  # the oldest first

    def log_in(self, token: str, connection: str) -> str:
        """Return the id of a new session. Raises UnauthenticatedError and LimitExceededError."""
        header = f"Bearer {token}"
        return self._begin(header, self._authenticate(header, connection))

    def log_in_user(self, name: str, password: str, connection: str) -> str:
        """Return the id of a new session of a user. Raises UnauthenticatedError and LimitExceededError."""
        header = basic_header(name, password)
        principal = self._authenticate(header, connection)
        # The password itself is not kept.
        authenticator = self._authenticator
        token = (
            authenticator.session_token(header) if isinstance(authenticator, PasswordAuthenticator) else None
        )
        return self._begin(header if token is None else f"Bearer {token}", principal)

    def _begin(self, header: str, principal: str) -> str:
        session = secrets.token_urlsafe(32)
        with self._lock:
            own = [name for name, other in self._sessions.items() if other.principal == principal]
            for name in own[: max(0, len(own) + 1 - _MAX_OWN_SESSIONS)]:
                del self._sessions[name]
            self._sessions[session] = _Session(header, principal, self._clock() + _SECONDS)
            while len(self._sessions) > _MAX_SESSIONS:
                self._sessions.popitem(last=False)
        return session

    def log_out(self, session: str) -> None:
        """Forget a session; to do it twice is no error."""
        with self._lock:
            self._sessions.pop(session, None)

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
            return sum(1 for session in self._sessions.values() if session.end > now)

    def _header(self, session: str) -> str:
        with self._lock:
            known = self._sessions.get(session)
            if known is not None and known.end > self._clock():
                return known.header
            self._sessions.pop(session, None)
        raise UnauthenticatedError("the session has ended; log in again")
