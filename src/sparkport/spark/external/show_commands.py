"""What Spark says of its catalogs: namespaces, tables, and what a table is.

In statements that every catalog understands, over Spark Connect too; none of them is a job. The catalogs'
own interface in Java is no faster: each of its many small calls crosses to another process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from sparkport.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidRequestError,
    PreconditionError,
    SparkportError,
    UnavailableError,
)
from sparkport.spark.errors import RejectedStatementError, clean_message, is_session_lost, translate
from sparkport.spark.sql_names import quoted

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
_VIEW_DETAILS = "# Detailed View Information"
_DETAILS = ("# Detailed Table Information", _VIEW_DETAILS)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A group of tables in a catalog; `parts` is its path."""

    parts: tuple[str, ...]
    comment: str
    tables: tuple[str, ...]

    @property
    def name(self) -> str:
        """What clients call it: the path with dots, where a part that has dots itself is quoted."""
        return ".".join(quoted(part) if "." in part or "`" in part else part for part in self.parts)


@dataclass(frozen=True, slots=True)
class Description:
    """What a catalog keeps of a table beside its columns."""

    provider: str
    location: str
    comment: str
    is_view: bool


def quote_for_sql(*path: str) -> str:
    """Return a quoted name for a statement. Raises InvalidRequestError if Spark SQL cannot write it."""
    if any("${" in part for part in path):
        # Spark puts settings in the place of these before it parses, quoted or not.
        raise InvalidRequestError(f"'{'.'.join(path)}' cannot be read: Spark does not support '${{' in names")
    return quoted(*path)


def child_namespaces(session: SparkSession, catalog: str, parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the paths of the namespaces directly in a namespace, or at the top of the catalog."""
    rows = session.sql(f"SHOW NAMESPACES IN {quote_for_sql(catalog, *parts)}").collect()
    return sorted(_path(row[0]) for row in rows)


def read_namespace(session: SparkSession, catalog: str, parts: tuple[str, ...]) -> Namespace:
    """Return a namespace with its tables and views; those of the session alone are not in any."""
    name = quote_for_sql(catalog, *parts)
    tables = {row[1] for row in session.sql(f"SHOW TABLES IN {name}").collect() if not row[2]}
    views = attempt(lambda: session.sql(f"SHOW VIEWS IN {name}").collect())
    match views:
        case PreconditionError():  # a catalog without views
            pass
        case SparkportError():
            raise views
        case _:
            tables |= {row[1] for row in views if not row[2]}
    described = session.sql(f"DESCRIBE NAMESPACE {name}").collect()
    comment = next((row[1] for row in described if row[0] == "Comment"), "")
    return Namespace(parts, comment or "", tuple(sorted(tables)))


def describe(session: SparkSession, name: str) -> Description:
    """Return what the catalog keeps of a table or view."""
    rows = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    details = _details(rows)
    return Description(
        details.get("Provider", "").lower(),
        details.get("Location", ""),
        details.get("Comment", ""),
        is_view=details.get("Type") == "VIEW" or any(row[0] == _VIEW_DETAILS for row in rows),
    )


def attempt(work: Callable[[], T]) -> T | SparkportError:
    """Return the result of work, or the error if it is the table's fault; raise other errors."""
    try:
        return work()
    except SparkportError as error:
        return error
    except (PySparkException, Py4JError) as error:
        ours = translate(error)
        lost = isinstance(ours, UnavailableError | CancelledError | DeadlineExceededError)
        if lost or is_session_lost(error):
            raise
        if ours is None or isinstance(ours, RejectedStatementError):
            return PreconditionError(str(ours or clean_message(str(error))))
        return ours


def _path(text: str) -> tuple[str, ...]:
    """Return the parts of a namespace as Spark writes it, quoted where it thinks fit."""
    return tuple(part[1].replace("``", "`") if part[2] is None else part[2] for part in _PART.finditer(text))


def _details(rows: list[Row]) -> dict[str, str]:
    title = max((at for at, row in enumerate(rows) if row[0] in _DETAILS), default=len(rows))
    return {row[0]: row[1] or "" for row in rows[title + 1 :]}
