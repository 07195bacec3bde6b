"""What a Spark session can do for the server, depending on where it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Chosen once, by how the session is reached.

    `delta_transactions`: Delta's own classes can be called, so that a commit is made on the very version that
    it was planned for. Over Spark Connect there is only SQL.
    `local_tasks`: tasks run on the server's machine, and share its disk and its Python packages.
    `job_groups`: the jobs of one call can be told from others, and cancelled.
    """

    delta_transactions: bool
    local_tasks: bool
    job_groups: bool


EMBEDDED = Capabilities(delta_transactions=True, local_tasks=True, job_groups=True)
CLUSTER = Capabilities(delta_transactions=True, local_tasks=False, job_groups=True)
CONNECT = Capabilities(delta_transactions=False, local_tasks=False, job_groups=False)
