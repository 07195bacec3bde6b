"""How many files the process may open; every connection of a client is one."""

from __future__ import annotations

import contextlib
import resource


def raise_file_limit() -> None:
    """Raise the limit on open files as far as the system allows without more rights.

    For a process that is a server only: the limit holds for all of it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems call a limit infinite that they do not grant; then the old one stays.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
