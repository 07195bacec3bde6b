"""Sessions of Flight SQL: options that hold for the calls that carry a cookie.

The cookie is the session: it has the options themselves, so that the server keeps nothing. They give no
rights; what they name is looked up when it is used.
"""

from __future__ import annotations

import base64
import binascii
import zoneinfo
from dataclasses import dataclass, field, replace
from http.cookies import CookieError, SimpleCookie

import msgspec

from sparkport.errors import InvalidRequestError
from sparkport.protocol import flight_sql_pb2 as sql
from sparkport.protocol.decoding import decode_msgpack
from sparkport.protocol.flight_sql.commands import parse

COOKIE = "arrow_flight_session_id"
OPTIONS = ("catalog", "schema", "time_zone")
"""The names of all options."""
_MAX_NAME = 500


@dataclass(frozen=True, slots=True)
class Session:
    """What names without a catalog or schema and times without a zone mean; the server decides if empty.

    `settings` are those of the SQL, which judges them wherever they are used.
    """

    catalog: str = ""
    schema: str = ""
    time_zone: str = ""
    settings: dict[str, str] = field(default_factory=dict)


def read_cookie(header: str) -> Session:
    """Return the session in a `cookie` header, an empty one without. Raises InvalidRequestError."""
    try:
        morsel = SimpleCookie(header).get(COOKIE)
    except CookieError as error:
        raise InvalidRequestError("malformed cookie header") from error
    if morsel is None or not morsel.value:
        return Session()
    try:
        data = base64.urlsafe_b64decode(morsel.value)
        return decode_msgpack(data, Session)
    except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
        raise InvalidRequestError("the session is not one of this server; open another one") from error


def has_cookie(header: str) -> bool:
    """Return whether a `cookie` header has a session: its client keeps what it is sent."""
    return COOKIE in header


def make_cookie(session: Session) -> str:
    """Return the `set-cookie` header of a session."""
    value = base64.urlsafe_b64encode(msgspec.msgpack.encode(session)).decode()
    return f"{COOKIE}={value}"


def closed_cookie() -> str:
    """Return the `set-cookie` header that ends a session."""
    return f"{COOKIE}=; Max-Age=0"


def decode_options(data: bytes) -> dict[str, str | None]:
    """Return the options of SetSessionOptions; None for one that is not a text, or is to be forgotten."""
    options = parse(sql.SetSessionOptionsRequest, data).session_options
    decoded: dict[str, str | None] = {}
    for name, value in options.items():
        kind = value.WhichOneof("option_value")
        is_short = kind == "string_value" and len(value.string_value) <= _MAX_NAME
        decoded[name] = "" if kind is None else value.string_value if is_short else None
    return decoded


def with_options(session: Session, options: dict[str, str | None]) -> tuple[Session, dict[str, int]]:
    """Return the session with options, and those that are refused with the number of the reason."""
    errors: dict[str, int] = {}
    for name, value in options.items():
        if name not in OPTIONS:
            errors[name] = sql.SetSessionOptionsResult.INVALID_NAME
        elif value is None or (name == "time_zone" and value and not is_time_zone(value)):
            errors[name] = sql.SetSessionOptionsResult.INVALID_VALUE
        else:
            session = _with_option(session, name, value)
    return session, errors


def _with_option(session: Session, name: str, value: str) -> Session:
    match name:
        case "catalog":
            return replace(session, catalog=value)
        case "schema":
            return replace(session, schema=value)
        case _:
            return replace(session, time_zone=value)


def is_time_zone(name: str) -> bool:
    """Return whether a name is that of a time zone such as Europe/Berlin."""
    return name in zoneinfo.available_timezones()


def encode_errors(errors: dict[str, int]) -> bytes:
    """Return the result of SetSessionOptions."""
    result = sql.SetSessionOptionsResult()
    for name, number in errors.items():
        result.errors[name].value = number  # type: ignore[assignment]  # the number of the enum
    return result.SerializeToString()


def encode_options(session: Session) -> bytes:
    """Return the result of GetSessionOptions."""
    result = sql.GetSessionOptionsResult()
    for name in OPTIONS:
        if getattr(session, name):
            result.session_options[name].string_value = getattr(session, name)
    return result.SerializeToString()


def encode_closed() -> bytes:
    """Return the result of CloseSession."""
    return sql.CloseSessionResult(status=sql.CloseSessionResult.CLOSED).SerializeToString()
