"""Every error that sparkport raises on purpose.

SparkportError
├── InvalidRequestError            the caller said something that cannot be right
│   ├── SchemaMismatchError        rows do not have the table's columns
│   └── ConstraintViolationError   rows break NOT NULL, CHECK, UNIQUE or PRIMARY KEY
├── NotFoundError                  a named thing is not there
│   └── RowNotFoundError
├── AlreadyExistsError             the name is taken
├── PreconditionError              right request, wrong state
│   ├── SchemaNotEmptyError
│   ├── LastColumnError
│   ├── UnsupportedOperationError  the table or catalog lacks the ability
│   └── TransactionNotActiveError
├── NotImplementedByServerError    no such action, method or manager here
├── UnauthenticatedError           no valid credentials
├── PermissionDeniedError          valid credentials, not allowed
├── ConflictError                  another writer came first; trying again may help
├── LimitExceededError             a configured limit was reached
├── CancelledError                 the caller went away
├── DeadlineExceededError          the caller's time is up
│   └── ClientSilentError          the caller sent or read nothing for too long
├── UnavailableError               a part the server needs is down
├── UserCodeError                  a user's function, table or action raised something else
└── ConfigError                    settings of a server that make no sense or are not safe

A class writes the sentence, the raiser gives the data. The gRPC front maps each
class to a status code in one table (`sparkport.flight.transport.statuses`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable

__all__ = [
    "AlreadyExistsError",
    "CancelledError",
    "ClientSilentError",
    "ConfigError",
    "ConflictError",
    "ConstraintViolationError",
    "DeadlineExceededError",
    "InvalidRequestError",
    "LastColumnError",
    "LimitExceededError",
    "NotFoundError",
    "NotImplementedByServerError",
    "PermissionDeniedError",
    "PreconditionError",
    "RowNotFoundError",
    "SchemaMismatchError",
    "SchemaNotEmptyError",
    "SparkportError",
    "TransactionNotActiveError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnsupportedOperationError",
    "UserCodeError",
]


_QUOTED_WITH_SLASH = re.compile(r"""'[^']*[/\\][^']*'|"[^"]*[/\\][^"]*\"""")
_WITH_SLASH = re.compile(r"\S*[/\\]\S*")
_MAX_CAUSE = 300
_MAX_NAMES = 5


class SparkportError(Exception):
    """The common base; its text is meant for the person at the client."""


class InvalidRequestError(SparkportError):
    """The request is malformed or contradicts itself."""


class SchemaMismatchError(InvalidRequestError):
    """Incoming rows do not have the columns or types of the table."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"schema mismatch: {detail}")
        self.detail = detail


class ConstraintViolationError(InvalidRequestError):
    """Rows break a constraint of the table."""

    def __init__(self, constraint: str, table: str, *, column: str | None = None, example: str = "") -> None:
        where = f" in column '{column}'" if column else ""
        shown = f": {example}" if example else ""
        super().__init__(f"{constraint} constraint of table '{table}' failed{where}{shown}")
        self.constraint = constraint
        self.table = table
        self.column = column


class NotFoundError(SparkportError):
    """A schema, table, column, catalog, version or function does not exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str] = ()) -> None:
        super().__init__(f"{kind} '{name}' not found{_hint(name, known)}")
        self.kind = kind
        self.name = name


class RowNotFoundError(NotFoundError):
    """An UPDATE names a row id that the table does not have."""

    def __init__(self, row_id: int) -> None:
        SparkportError.__init__(self, f"row_id {row_id} not found in table")
        self.kind = "row"
        self.name = str(row_id)


class AlreadyExistsError(SparkportError):
    """A schema, table, column or catalog of that name exists already."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} '{name}' already exists")
        self.kind = kind
        self.name = name


class PreconditionError(SparkportError):
    """The request is sound, but not in the present state."""


class SchemaNotEmptyError(PreconditionError):
    """A schema that still has tables, or in whose folder something else lies, cannot be dropped."""

    def __init__(self, schema: str, tables: Collection[str], others: Collection[str] = ()) -> None:
        count = f"{len(tables)} {'table' if len(tables) == 1 else 'tables'}: {_some(tables)}"
        verb = "is no table" if len(others) == 1 else "are no tables"
        foreign = f"holds {_some(others)}, which {verb} of this server"
        if tables:
            text = f"schema '{schema}' contains tables ({count}); drop them first or use cascade"
            text += f"; its folder also {foreign}" if others else ""
        else:
            text = f"schema '{schema}' is not empty: its folder {foreign}; move it away first"
        super().__init__(text)
        self.schema = schema
        self.tables = tuple(tables)
        self.others = tuple(others)


class LastColumnError(PreconditionError):
    """A table keeps at least one column."""

    def __init__(self, table: str, column: str) -> None:
        super().__init__(f"cannot drop column '{column}': it is the last column of table '{table}'")
        self.table = table
        self.column = column


class UnsupportedOperationError(PreconditionError):
    """The object lacks the ability that the request needs."""

    def __init__(self, kind: str, name: str, operation: str) -> None:
        super().__init__(f"{kind} '{name}' does not support {operation}")
        self.kind = kind
        self.name = name
        self.operation = operation


class TransactionNotActiveError(PreconditionError):
    """The transaction is over."""

    def __init__(self, transaction_id: str, state: str) -> None:
        super().__init__(f"transaction {transaction_id} is not active (state: {state})")
        self.transaction_id = transaction_id
        self.state = state


class NotImplementedByServerError(SparkportError):
    """This server has no such action or part."""


class UnauthenticatedError(SparkportError):
    """The call carries no valid credentials."""


class PermissionDeniedError(SparkportError):
    """The principal may not do this."""


class ConflictError(SparkportError):
    """Another writer changed the same rows or table first."""

    def __init__(self, table: str, detail: str) -> None:
        super().__init__(f"conflict on table '{table}': {detail}; run the statement again")
        self.table = table


class LimitExceededError(SparkportError):
    """A limit of the server was reached."""


class CancelledError(SparkportError):
    """The client went away or cancelled."""

    def __init__(self) -> None:
        super().__init__("the call was cancelled")


class DeadlineExceededError(SparkportError):
    """The deadline of the call has passed, or the time that the server gives to a statement."""

    def __init__(self, message: str = "the deadline of the call has passed") -> None:
        super().__init__(message)


class ClientSilentError(DeadlineExceededError):
    """The client sent, or read, nothing for longer than the server waits."""

    def __init__(self, action: str, seconds: float | None) -> None:
        unit = "second" if seconds == 1 else "seconds"
        SparkportError.__init__(self, f"the client {action} nothing within {seconds or 0:g} {unit}")
        self.action = action
        self.seconds = seconds


class UnavailableError(SparkportError):
    """A part that the server depends on does not answer now."""


class UserCodeError(SparkportError):
    """Code that a user wrote for the server failed; the cause goes to the log."""

    def __init__(self, kind: str, name: str, cause: BaseException, trace_id: str) -> None:
        text = _without_paths(str(cause).strip().partition("\n")[0])[:_MAX_CAUSE]
        shown = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
        super().__init__(f"{kind} '{name}' failed: {shown} (trace id {trace_id})")
        self.kind = kind
        self.name = name


class ConfigError(SparkportError):
    """A setting that makes no sense or is not safe; raised when a server is set up, never to a client."""


def _without_paths(text: str) -> str:
    """Return the text without what may be the path of a file: it is not the caller's business."""
    return _WITH_SLASH.sub("...", _QUOTED_WITH_SLASH.sub("'...'", text))


def _some(names: Collection[str]) -> str:
    """Return the first of some names, quoted."""
    shown = ", ".join(f"'{name}'" for name in sorted(names)[:_MAX_NAMES])
    return f"{shown}, ..." if len(names) > _MAX_NAMES else shown


def _hint(name: str, known: Iterable[str]) -> str:
    spelled = {candidate.lower(): candidate for candidate in known}
    last = name.rpartition(".")[2].lower()
    near = difflib.get_close_matches(last, spelled, n=1)
    return f". Did you mean '{spelled[near[0]]}'?" if near else ""
