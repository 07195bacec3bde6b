"""Sessions of the console: how long they last, and how many there are."""

from __future__ import annotations

import pytest

from sparkport.errors import UnauthenticatedError
from sparkport.flight.transport.auth import Authenticator
from sparkport.http.sessions import Sessions


class Everybody(Authenticator):
    """Takes the token for the name of the caller."""

    def authenticate(self, authorization: str | None) -> str:
        """Return the token."""
        return (authorization or "").removeprefix("Bearer ")


def test_a_principal_has_a_hundred_sessions() -> None:
    """The oldest one ends when another begins; the sessions of others stay."""
    sessions = Sessions(Everybody())
    other = sessions.log_in("grace", "")
    own = [sessions.log_in("ada", "") for _ in range(101)]

    assert sessions.count() == 101
    assert sessions.principal(other, None, "") == "grace"
    assert [sessions.principal(session, None, "") for session in own[1:]] == ["ada"] * 100
    with pytest.raises(UnauthenticatedError, match="the session has ended"):
        sessions.principal(own[0], None, "")


def test_a_session_ends_after_twelve_hours() -> None:
    """However often it is used."""
    now = 0.0
    sessions = Sessions(Everybody(), clock=lambda: now)
    session = sessions.log_in("ada", "")
    now = 12 * 3600 - 1.0
    late = sessions.principal(session, None, "")
    now += 1

    assert late == "ada"
    assert sessions.count() == 0
    with pytest.raises(UnauthenticatedError):
        sessions.principal(session, None, "")
