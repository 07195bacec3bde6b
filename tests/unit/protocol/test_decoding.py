"""Decoding by many threads at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Types that nobody has decoded yet, each by several threads: msgspec's own functions crash the process.
SCRIPT = """
import sys, threading
from dataclasses import make_dataclass
import msgspec
from sparkport.protocol.decoding import decode_json, decode_msgpack

sys.setswitchinterval(1e-6)
value = (1, ({"name": "x"}, "y"))
forms = [(decode_msgpack, msgspec.msgpack.encode(value)), (decode_json, msgspec.json.encode(value))]
for number in range(200):
    inner = make_dataclass("Inner", [("name", str)])
    outer = msgspec.defstruct("Outer", [("inner", inner | None), ("name", str)], array_like=True)
    barrier = threading.Barrier(6)
    results = []

    def work(decode, data):
        barrier.wait()
        results.append(decode(data, tuple[int, outer])[1].inner.name)

    threads = [threading.Thread(target=work, args=forms[index % 2]) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["x"] * 6, results
"""


@pytest.mark.timeout(120)
def test_threads_may_meet_at_the_first_use_of_a_type() -> None:
    """Two clients of a server that has just started decode the same type at once, and nothing crashes."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
