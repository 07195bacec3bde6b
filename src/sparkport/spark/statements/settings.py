"""The settings of a session that callers may change, by the names that Spark has for them.

None of them lets a caller see more, or changes what others get. A Spark session is made for each combination
that is in use, so that no caller's settings reach another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from sparkport.catalog.sql import SqlStatement
from sparkport.errors import InvalidRequestError, NotFoundError, PermissionDeniedError
from sparkport.spark.query.placeholders import TOKEN
from sparkport.spark.sql_names import quoted

DOUBLE_QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"
_TIME_ZONE = "spark.sql.session.timeZone"
_FIXED = {"spark.sql.ansi.enabled": "true", "spark.sql.caseSensitive": "false"}
_DEFAULT = "<default>"  # that of the server
_COLUMNS = pa.schema([("key", pa.string()), ("value", pa.string())])
_SET = re.compile(r"\s*SET\s*(?:`?(?P<name>[\w.]+)`?)?\s*;?\s*", re.IGNORECASE)
_MAX_BROADCAST = 256 << 20


@dataclass(frozen=True, slots=True)
class _Setting:
    values: str
    is_valid: Callable[[str], bool]


def _whole(low: int, high: int) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(r"-?\d{1,12}", text) is not None and low <= int(text) <= high


_SWITCH = _Setting("true or false", lambda text: text in {"true", "false"})
_SETTINGS = {
    DOUBLE_QUOTED_NAMES: _SWITCH,
    "spark.sql.adaptive.enabled": _SWITCH,
    "spark.sql.autoBroadcastJoinThreshold": _Setting(
        f"a number of bytes from -1 to {_MAX_BROADCAST}", _whole(-1, _MAX_BROADCAST)
    ),
    "spark.sql.shuffle.partitions": _Setting("a number from 1 to 1000", _whole(1, 1000)),
}
_SPELLED = {name.lower(): name for name in (*_SETTINGS, *_FIXED, _TIME_ZONE)}


def in_session(statement: SqlStatement) -> SqlStatement:
    """Return a statement as Spark is to have it, with its settings in Spark's spelling.

    Raises NotFoundError and InvalidRequestError for settings that do not exist or have no such value, and
    PermissionDeniedError for those that nobody can change.
    """
    if not statement.settings:
        return statement
    settings = dict(_checked(name, value) for name, value in statement.settings)
    text = statement.text
    if settings.pop(DOUBLE_QUOTED_NAMES, "false") == "true":
        text = _with_back_ticks(text)
    return replace(statement, text=text, settings=tuple(sorted(settings.items())))


def is_setting_query(sql: str) -> bool:
    """Return whether a statement asks for settings: SET, or SET and a name."""
    return _SET.fullmatch(sql) is not None


def settings_of(statement: SqlStatement) -> pa.Table:
    """Return the settings that SET asks for, as the session has them. Raises NotFoundError."""
    values = dict.fromkeys(_SETTINGS, _DEFAULT) | _FIXED | {_TIME_ZONE: statement.time_zone or "UTC"}
    values |= dict(_checked(name, value) for name, value in statement.settings)
    asked = _SET.fullmatch(statement.text)
    if asked and asked["name"]:
        name = _spelled(asked["name"])
        values = {name: values[name]}
    rows = sorted(values.items())
    return pa.table([[name for name, _ in rows], [value for _, value in rows]], schema=_COLUMNS)


def _checked(name: str, value: str) -> tuple[str, str]:
    spelled = _spelled(name)
    if spelled == _TIME_ZONE:
        raise InvalidRequestError("the time zone is set by SET TIME ZONE, or the option time_zone")
    if spelled in _FIXED:
        raise PermissionDeniedError(f"the setting '{spelled}' is always {_FIXED[spelled]} on this server")
    setting, value = _SETTINGS[spelled], value.lower()
    if not setting.is_valid(value):
        raise InvalidRequestError(f"the setting '{spelled}' is {setting.values}, not '{value[:40]}'")
    return spelled, value


def _spelled(name: str) -> str:
    spelled = _SPELLED.get(name.lower())
    if spelled is None:
        raise NotFoundError("setting", name, list(_SPELLED.values()))
    return spelled


def _with_back_ticks(sql: str) -> str:
    """Return a statement with names in back-ticks in the place of those in double quotes."""

    def replaced(token: str) -> str:
        if len(token) < 2 or not (token.startswith('"') and token.endswith('"')):  # noqa: PLR2004
            return token
        return quoted(token[1:-1].replace('""', '"'))

    return TOKEN.sub(lambda match: replaced(match.group()), sql)
