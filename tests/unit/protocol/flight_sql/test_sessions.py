"""Sessions of Flight SQL, which are cookies."""

from __future__ import annotations

import pytest

from sparkport.errors import InvalidRequestError
from sparkport.protocol.flight_sql.sessions import (
    Session,
    closed_cookie,
    make_cookie,
    read_cookie,
    with_options,
)


@pytest.mark.parametrize("session", [Session(), Session("a", "b"), Session(schema='ü "; =')])
def test_a_cookie_brings_back_its_session(session: Session) -> None:
    """What a cookie holds is the session, whatever its names."""
    assert read_cookie(make_cookie(session)) == session


def test_without_a_cookie_there_is_an_empty_session() -> None:
    """Other cookies do not matter, nor does one that was closed."""
    assert read_cookie("") == read_cookie("other=1") == read_cookie(closed_cookie()) == Session()


@pytest.mark.parametrize("value", ["x", "AAAA", "kgEC", "wA=="])
def test_a_foreign_cookie_is_refused(value: str) -> None:
    """A cookie that the server has not made is an error of the request."""
    with pytest.raises(InvalidRequestError):
        read_cookie(f"arrow_flight_session_id={value}")


def test_an_option_can_be_forgotten() -> None:
    """An empty text takes an option back."""
    session, errors = with_options(Session("a", "b"), {"schema": ""})

    assert session == Session("a")
    assert errors == {}
