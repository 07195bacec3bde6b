"""Expression workers: who gets one, when they are started, and what limits they have."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call
from sparkport.errors import CancelledError, LimitExceededError
from sparkport.expressions import sandbox, turns, worker
from sparkport.expressions.turns import Turns
from sparkport.memory import MemoryCatalog

# Sets a hard limit first, as an administrator would have.
UNDER_A_LIMIT = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.argv = ["worker.py", "512"]
runpy.run_path({path!r}, run_name="__main__")
"""


def test_starting_a_server_starts_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first user of a CHECK does not wait for a process to start; a second server starts no other."""
    shared = sandbox.Sandbox()
    monkeypatch.setattr("sparkport.app.server.SANDBOX", shared)
    with sparkport.Server(MemoryCatalog(), port=0):
        (first,) = shared._idle
    with sparkport.Server(MemoryCatalog(), port=0):
        idle = list(shared._idle)

    assert idle == [first]
    assert shared.run(Call(), "SELECT 1 AS n").to_pylist() == [{"n": 1}]
    assert shared._idle == [first]
    shared.close()


@pytest.mark.needs("linux", sys.platform == "linux", "only there can be seen what a process has loaded")
def test_time_of_the_first_rows_is_none_of_the_query() -> None:
    """What DuckDB imports to read rows is imported before a worker takes queries."""
    process = sandbox._Worker()
    maps = Path(f"/proc/{process._process.pid}/maps")
    try:
        process.run(Call(), "SELECT 1", (), None)
        before = _libraries(maps)
        process.run(Call(), "SELECT n FROM rows", (), pa.table({"n": [1]}))
        after = _libraries(maps)
    finally:
        process.close()

    assert any("pyarrow" in name for name in before)
    assert after == before


def _libraries(maps: Path) -> set[str]:
    """Return the libraries that a process has loaded."""
    return {line.split()[-1] for line in maps.read_text().splitlines() if line.endswith(".so")}


def test_server_starts_where_no_worker_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables without expressions need none."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    shared = sandbox.Sandbox()
    monkeypatch.setattr("sparkport.expressions.sandbox.subprocess.Popen", refuse)
    shared.start_ahead()

    assert shared._idle == []


def test_worker_runs_under_a_lower_hard_limit() -> None:
    """A limit that the administrator has set is kept, and no error."""
    request = {"query": "SELECT 1 AS n", "parameters": [], "seconds": 10, "bytes": 0}
    done = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT.format(path=worker.__file__)],
        input=json.dumps(request).encode() + b"\n",
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert done.stderr == b""
    assert json.loads(done.stdout.partition(b"\n")[0])["kind"] == "rows"


def test_limit_that_the_platform_lacks_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every system knows every limit."""
    limits: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.delattr(resource, "RLIMIT_DATA")
    monkeypatch.setattr(resource, "setrlimit", lambda number, pair: limits.append((number, pair)))
    monkeypatch.setattr(worker, "_STATUS", Path("/nowhere/status"))
    monkeypatch.setattr(worker, "_OOM_SCORE", Path("/nowhere/oom_score_adj"))
    worker.limit_process(megabytes=512)

    assert limits == [(resource.RLIMIT_FSIZE, (0, 0)), (resource.RLIMIT_CORE, (0, 0))]


@pytest.mark.needs("linux", sys.platform == "linux", "other kernels have no such score")
def test_kernel_ends_workers_before_the_server() -> None:
    """Whose memory it is that has run out, the server is not the one to go."""
    process = sandbox._Worker()
    try:
        process.run(Call(), "SELECT 1", (), None)
        score = Path(f"/proc/{process._process.pid}/oom_score_adj").read_text()
    finally:
        process.close()

    assert int(score) == 1000


@pytest.mark.parametrize(
    ("memory", "megabytes"), [(64 << 30, 512), (8 << 30, 512), (2 << 30, 128), (256 << 20, 64)]
)
def test_memory_of_workers_follows_that_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, memory: int, megabytes: int
) -> None:
    """In a small container all workers together stay within a quarter of it."""
    monkeypatch.setattr(sandbox, "machine_memory", lambda: memory)

    assert sandbox.memory_limit_megabytes() == megabytes


def test_smallest_worker_evaluates_and_says_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error names the limit that holds on this machine."""
    monkeypatch.setattr(sandbox, "machine_memory", lambda: 256 << 20)
    shared = sandbox.Sandbox()

    assert shared.run(Call(), "SELECT 1 AS n").to_pylist() == [{"n": 1}]
    with pytest.raises(LimitExceededError, match="more than 64 MB"):
        shared.run(Call(), "SELECT length(repeat('x', 200000000))")
    shared.close()


def test_no_caller_has_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many queries one caller sends, another gets in at once."""
    monkeypatch.setattr(turns, "_MAX_WAIT_SECONDS", 0.1)
    shared = Turns(4)
    slow, quick = {"is_quick": False}, {"is_quick": True}
    with shared.take(Call("ann"), **slow), shared.take(Call("ann"), **slow):
        with pytest.raises(
            LimitExceededError, match=r"^2 expressions of this caller are already being evaluated"
        ):
            shared.take(Call("ann"), **slow).__enter__()
        with shared.take(Call("bob"), **slow), shared.take(Call("ann"), **quick):
            with pytest.raises(LimitExceededError, match=r"^4 expressions are already being evaluated"):
                shared.take(Call("eve"), **quick).__enter__()
            assert shared.running == 4

    assert shared.running == 0


def test_caller_with_fewest_queries_is_next() -> None:
    """Who has sent many queries before does not keep others back."""
    shared = Turns(2)
    order: list[str] = []
    held = shared.take(Call("eve"), is_quick=True)
    blocked = threading.Event()

    def run(principal: str) -> None:
        with shared.take(Call(principal), is_quick=True):
            order.append(principal)
            blocked.wait(10)

    held.__enter__()
    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(run, "ann")]
        while shared.running < 2:
            threading.Event().wait(0.01)
        running += [threads.submit(run, "ann"), threads.submit(run, "bob")]
        while len(shared._waiting) < 2:
            threading.Event().wait(0.01)
        held.__exit__(None, None, None)
        while shared.running < 2:
            threading.Event().wait(0.01)
        blocked.set()
        for future in running:
            future.result(10)

    assert order == ["ann", "bob", "ann"]


def test_cancelled_query_gives_up_its_place_in_the_queue() -> None:
    """Nobody waits for the turn of a caller who is gone."""
    shared = Turns(2)
    call = Call("bob")
    with shared.take(Call("ann"), is_quick=True), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(shared.take(call, is_quick=False).__enter__)
        while not shared._waiting:
            threading.Event().wait(0.01)
        call.cancel()
        assert isinstance(waiting.exception(10), CancelledError)

    assert shared._waiting == []
