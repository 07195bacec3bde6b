"""Looking into several catalogs for one listing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import structlog

from sparkport.catalog.tables import Catalog
from sparkport.errors import CancelledError, DeadlineExceededError, SparkportError

_log = structlog.get_logger("sparkport")

T = TypeVar("T")


def list_each(
    catalogs: Sequence[tuple[str, Catalog]], look: Callable[[Catalog], T]
) -> Iterator[tuple[str, T]]:
    """Yield the name of each catalog with what the look into it finds.

    One that cannot be listed is left out, so that it does not hide the others; if none can, the
    first reason is raised. The end of the call is the end of the survey.
    """
    failures: list[tuple[str, SparkportError]] = []
    for name, catalog in catalogs:
        try:
            found = look(catalog)
        except (CancelledError, DeadlineExceededError):
            raise
        except SparkportError as error:
            failures.append((name, error))
        else:
            yield name, found
    if failures and len(failures) == len(catalogs):
        raise failures[0][1]
    for name, failure in failures:
        _log.warning("catalog left out of the listing", name=name, reason=str(failure))
