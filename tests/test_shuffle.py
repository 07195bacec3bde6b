"""The order of tests with `--shuffle`: one small run of pytest per rule."""

from __future__ import annotations

import pytest

_TESTS = """
import pytest

@pytest.fixture(scope="session", params=["x", "y"])
def shared(request): return request.param

@pytest.mark.parametrize("number", range(8))
def test_shared(shared, number): pass
"""


def order(pytester: pytest.Pytester, *flags: str) -> list[str]:
    """Return the tests in the order they ran in."""
    pytester.makepyfile(test_a=_TESTS, test_b=_TESTS)
    result = pytester.runpytest_inprocess("-v", "-p", "no:cacheprovider", "-p", "tests.shuffle", *flags)
    assert result.ret == 0
    return [line.split(" ")[0] for line in result.outlines if " PASSED" in line]


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the plugins of the installed packages."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_seed_tells_the_order(pytester: pytest.Pytester) -> None:
    """The same seed gives the same order, another one another, and all run the same tests."""
    plain = order(pytester)
    one, again, other = (order(pytester, "--shuffle", seed) for seed in ("1", "1", "2"))

    assert len(plain) == 32
    assert one == again
    assert len({tuple(names) for names in (plain, one, other)}) == 3
    assert set(plain) == set(one) == set(other)


def test_tests_of_a_shared_fixture_stay_together(pytester: pytest.Pytester) -> None:
    """The tests of a file with the same shared fixture run one after the other."""
    names = order(pytester, "--shuffle", "3")
    groups = [(name[:9], name.partition("[")[2][0]) for name in names]
    changes = [group for number, group in enumerate(groups) if number == 0 or groups[number - 1] != group]

    assert len(changes) == len(set(changes)) == 4
