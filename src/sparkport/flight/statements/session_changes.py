"""USE and SET: statements that change the session, which is the client's cookie."""

from __future__ import annotations

import re
from dataclasses import replace

from sparkport.catalog.lookup import find_schema
from sparkport.catalog.sql import SqlCatalog, SqlStatement
from sparkport.errors import InvalidRequestError, NotFoundError, PreconditionError, UnsupportedOperationError
from sparkport.flight.context import ServerContext
from sparkport.flight.request import Request
from sparkport.flight.statements import execution
from sparkport.protocol.flight_sql import sessions as sql_sessions
from sparkport.protocol.flight_sql.sessions import Session

_NAME = r"""(?:[A-Za-z_]\w*|`(?:[^`]|``)+`|"(?:[^"]|"")+")"""
_USE = re.compile(
    rf"\s*USE\s+(?P<kind>(?:SCHEMA|DATABASE|NAMESPACE|CATALOG)\s+)?(?P<path>{_NAME}(?:\s*\.\s*{_NAME})?)\s*;?\s*",
    re.IGNORECASE,
)
_SET = re.compile(
    rf"\s*SET\s+(?P<option>CATALOG|SCHEMA)\s*(?:=\s*|\s)'?(?P<name>{_NAME})'?\s*;?\s*", re.IGNORECASE
)
_TIME_ZONE = re.compile(
    r"\s*SET\s+(?:TIME\s+ZONE\s+|(?:SESSION\s+)?(?:spark\.sql\.session\.)?timezone\s*=\s*)"
    r"""(?P<quote>['"]?)(?P<zone>[\w/+:-]+)(?P=quote)\s*;?\s*""",
    re.IGNORECASE,
)
_SETTING = re.compile(
    r"""\s*SET\s+`?(?P<name>spark\.[\w.]{1,100})`?\s*=\s*(?P<quote>['"]?)(?P<value>[\w.-]{1,100})(?P=quote)\s*;?\s*""",
    re.IGNORECASE,
)
_RESET = re.compile(r"\s*RESET(?:\s+`?(?P<name>spark\.[\w.]{1,100})`?)?\s*;?\s*", re.IGNORECASE)
_SPARK_TIME_ZONE = "spark.sql.session.timezone"
_PART = re.compile(_NAME)


def is_session_change(sql: str) -> bool:
    """Return whether a statement changes the session."""
    return any(pattern.fullmatch(sql) for pattern in (_USE, _SET, _TIME_ZONE, _SETTING, _RESET))


def change_session(context: ServerContext, request: Request, sql: str) -> None:
    """Run a statement that changes the session: the client gets another cookie.

    Raises NotFoundError for names that mean nothing, and PreconditionError if the client keeps no cookies.
    """
    header = request.headers.get("cookie")
    session = _changed(context, request, sql_sessions.read_cookie(header), sql)
    if not sql_sessions.has_cookie(header):
        raise PreconditionError(
            "the client keeps no session, so that USE and SET would be forgotten: let it keep cookies (ADBC:"
            " adbc.flight.sql.rpc.with_cookie_middleware), or name the schema of each table"
        )
    request.rpc.send_initial_metadata((("set-cookie", sql_sessions.make_cookie(session)),))


def open_session(request: Request) -> None:
    """Give a client that has no session a cookie, which it sends back if it keeps cookies."""
    header = request.headers.get("cookie")
    if not sql_sessions.has_cookie(header):
        request.rpc.send_initial_metadata((("set-cookie", sql_sessions.make_cookie(Session())),))


def _changed(context: ServerContext, request: Request, session: Session, sql: str) -> Session:
    if zone := _TIME_ZONE.fullmatch(sql):
        return _in_zone(context, request, session, zone["zone"])
    if setting := _SETTING.fullmatch(sql):
        return _with_setting(context, request, session, setting["name"], setting["value"])
    if reset := _RESET.fullmatch(sql):
        return _without_setting(context, request, session, reset["name"])
    option = _SET.fullmatch(sql)
    if option:
        kind, path = option["option"].upper(), [_unquoted(option["name"])]
    else:
        use = _USE.fullmatch(sql)
        if use is None:
            raise InvalidRequestError("the statement does not change the session")
        kind = (use["kind"] or "").strip().upper()
        path = [_unquoted(part) for part in _PART.findall(use["path"])]
    if kind == "CATALOG":
        return _in_catalog(context, request, session, path[0])
    current = session.catalog or context.default_catalog(request)
    if len(path) > 1:
        session = _in_catalog(context, request, session, path[0])
        current = session.catalog
    elif not kind and context.named_catalog(request.call, current).schema(request.call, path[0]) is None:
        known = [
            name for name, _ in context.visible_catalogs(request.call) if name.lower() == path[0].lower()
        ]
        if known:
            return _in_catalog(context, request, session, known[0])
    schema = find_schema(request.call, context.named_catalog(request.call, current), path[-1])
    return replace(session, schema=schema.name)


def _in_catalog(context: ServerContext, request: Request, session: Session, name: str) -> Session:
    names = [known for known, _ in context.visible_catalogs(request.call)]
    spelled = next((known for known in names if known.lower() == name.lower()), None)
    if spelled is None:
        raise NotFoundError("catalog", name, names)
    return replace(session, catalog=spelled, schema="")


def _in_zone(context: ServerContext, request: Request, session: Session, zone: str) -> Session:
    _sql_catalog(context, request, session, "SET TIME ZONE")
    if zone.upper() == "LOCAL":
        return replace(session, time_zone="")
    if not sql_sessions.is_time_zone(zone):
        raise InvalidRequestError(f"'{zone}' is not a time zone such as Europe/Berlin or UTC")
    return replace(session, time_zone=zone)


def _with_setting(
    context: ServerContext, request: Request, session: Session, name: str, value: str
) -> Session:
    kept = {known: own for known, own in session.settings.items() if known.lower() != name.lower()}
    changed = replace(session, settings={**kept, name: value})
    _sql_catalog(context, request, session, "SET of a setting")
    # The catalog judges the settings of every statement.
    catalog = changed.catalog or context.default_catalog(request)
    probe = SqlStatement("SET", catalog, changed.schema, settings=tuple(changed.settings.items()))
    execution.describe(context, request.call, probe)
    return changed


def _without_setting(context: ServerContext, request: Request, session: Session, name: str | None) -> Session:
    _sql_catalog(context, request, session, "RESET")
    if name is None:
        return replace(session, settings={}, time_zone="")
    if name.lower() == _SPARK_TIME_ZONE:
        return replace(session, time_zone="")
    kept = {known: own for known, own in session.settings.items() if known.lower() != name.lower()}
    return replace(session, settings=kept)


def _sql_catalog(context: ServerContext, request: Request, session: Session, operation: str) -> None:
    """Make sure that the session's catalog has an SQL of its own. Raises UnsupportedOperationError."""
    catalog = session.catalog or context.default_catalog(request)
    if not isinstance(context.named_catalog(request.call, catalog), SqlCatalog):
        raise UnsupportedOperationError("catalog", catalog, operation)


def _unquoted(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(2 * quote, quote) if quote in '`"' else name
