"""The fence around what users write."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sparkport.catalog.call import Call
from sparkport.errors import SparkportError, UserCodeError


@contextlib.contextmanager
def guarded(call: Call, kind: str, name: str) -> Iterator[None]:
    """Let the errors of sparkport pass and turn all others into UserCodeError."""
    try:
        yield
    except SparkportError:
        raise
    except Exception as error:
        raise UserCodeError(kind, name, error, call.trace_id) from error
