"""Who may call, by a file with users and their passwords, which may change while the server runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from sparkport.app.authentication.credential_file import WatchedCredentials
from sparkport.app.authentication.failure_limit import FailureLimit
from sparkport.app.authentication.passwords import PasswordChecks
from sparkport.app.authentication.session_tokens import SessionTokens
from sparkport.app.authentication.users import StoredUser, UserFile
from sparkport.catalog.principal import Principal, WayIn
from sparkport.errors import UnauthenticatedError
from sparkport.flight.transport.auth import Authenticator, PasswordAuthenticator, Revocable, basic, token

__all__ = ["UserFileAuthenticator"]


def _now() -> datetime:
    return datetime.now(UTC)


class _Credentials(NamedTuple):
    name: str
    password: bytes


class UserFileAuthenticator(PasswordAuthenticator, Revocable):
    """Knows the users of a file, as it is at the moment of each call, and whom another authenticator knows.

    Tokens, and passwords that were right before, are looked at first: failures of others keep nobody out who
    has them. Only then is the password checked, unless there were too many failures.
    """

    def __init__(
        self,
        file: UserFile,
        other: Authenticator,
        *,
        key: bytes | None = None,
        failures: FailureLimit | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        """Read the file; `key` signs session tokens. Raises ConfigError."""
        self._users = WatchedCredentials(file)
        self._other = other
        self._sessions = SessionTokens(key)
        self._checks = PasswordChecks()
        self._failures = failures or FailureLimit()
        self._clock = clock

    def authenticate(self, authorization: str | None) -> str:
        """Return the user's name. Raises UnauthenticatedError and LimitExceededError."""
        return self.authenticate_from(authorization, "")

    def authenticate_from(self, authorization: str | None, connection: str) -> str:
        """Return the name of a user who calls from an address.

        Raises UnauthenticatedError, and LimitExceededError after too many failures.
        """
        return self._admit(authorization, lambda given, users: self._log_in(given, users, connection))

    def session_token(self, authorization: str) -> str | None:
        """Return a session token for the Basic header of a user, None for other credentials."""
        given = _credentials(authorization)
        user = None if given is None else self._remembered(given, self._users.current())
        return None if user is None else self._sessions.issue(user, self._clock())

    def still_admits(self, principal: str, authorization: str) -> bool:
        """Return whether the user is still there, has the same password, and has not expired."""
        try:
            return self._admit(authorization, self._check_again) == principal
        except UnauthenticatedError:
            return False

    def _admit(
        self,
        authorization: str | None,
        check: Callable[[_Credentials, Mapping[str, StoredUser]], StoredUser],
    ) -> str:
        users = self._users.current()
        given = _credentials(authorization or "")
        user = None if given is None else self._remembered(given, users)
        text = token(authorization or "").decode(errors="replace")
        if user is None and SessionTokens.is_one(text):
            user = self._sessions.user(text, users, self._clock())
            if user is None:
                raise UnauthenticatedError("the session has ended, or its token is not valid; log in again")
        if user is not None:
            return self._principal(user)
        try:
            return self._other.authenticate(authorization)
        except UnauthenticatedError:
            if given is None:
                raise
        return self._principal(check(given, users))

    def _remembered(self, given: _Credentials, users: Mapping[str, StoredUser]) -> StoredUser | None:
        user = users.get(given.name)
        return user if user is not None and self._checks.remembers(user.argon2id, given.password) else None

    def _log_in(self, given: _Credentials, users: Mapping[str, StoredUser], connection: str) -> StoredUser:
        """Return the user if the password is right; the work is not even begun after too many failures."""
        self._failures.check(connection, given.name)
        user = self._checked(given, users, lambda: self._failures.begin(connection, given.name))
        self._failures.succeeded(connection, given.name)
        return user

    def _check_again(self, given: _Credentials, users: Mapping[str, StoredUser]) -> StoredUser:
        """Return the user of a call that runs; it has failed nothing, whatever has become of the user."""
        return self._checked(given, users, lambda: None)

    def _checked(
        self, given: _Credentials, users: Mapping[str, StoredUser], before: Callable[[], None]
    ) -> StoredUser:
        user = users.get(given.name)
        stored = None if user is None else user.argon2id
        if not self._checks.is_right(stored, given.password, before) or user is None:
            # One text for both: it does not tell whether there is such a user.
            raise UnauthenticatedError("the user name or the password is not valid")
        return user

    def _principal(self, user: StoredUser) -> Principal:
        if not user.is_valid_at(self._clock()):
            raise UnauthenticatedError(f"the user '{user.name}' has expired")
        return Principal(user.name, user.roles, WayIn.PASSWORD)


def _credentials(authorization: str) -> _Credentials | None:
    """Return user and password of a Basic header; None for others, and without a user name."""
    name, password = basic(authorization)
    return _Credentials(name.decode(errors="replace"), password) if name else None
