"""What was logged, without a trace left of having looked."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog
from structlog.testing import capture_logs


@contextmanager
def captured_logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """Collect the events of a block.

    structlog takes the capturing for a configuration of the user's own, and a server that finds one
    leaves the log alone from then on.
    """
    was_configured = structlog.is_configured()
    with capture_logs() as logs:
        yield logs
    if not was_configured:
        structlog.reset_defaults()
