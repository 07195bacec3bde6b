"""List the contents of several catalogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import structlog

from sparkport.catalog.tables import Catalog
from sparkport.errors import CancelledError, DeadlineExceededError, SparkportError

_log = structlog.get_logger("sparkport")

T = TypeVar("T")


def list_each(
    catalogs: Sequence[tuple[str, Catalog]], list_one: Callable[[Catalog], T]
) -> Iterator[tuple[str, T]]:
    """Yield the name and the contents of each catalog.

    A catalog that cannot be listed is skipped with a warning, so that it does not hide the others; if all
    fail, the first error is raised. A cancelled or late call ends the listing.
    """
    failures: list[tuple[str, SparkportError]] = []
    for name, catalog in catalogs:
        try:
            contents = list_one(catalog)
        except (CancelledError, DeadlineExceededError):
            raise
        except SparkportError as error:
            failures.append((name, error))
        else:
            yield name, contents
    if failures and len(failures) == len(catalogs):
        raise failures[0][1]
    for name, failure in failures:
        _log.warning("catalog not listed", name=name, reason=str(failure))
