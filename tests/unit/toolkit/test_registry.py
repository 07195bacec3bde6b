from __future__ import annotations

import pytest

from sparkport.catalog import Catalog
from sparkport.errors import AlreadyExistsError, NotFoundError
from sparkport.toolkit import CatalogBuilder
from sparkport.toolkit.registry import Catalogs

ONE, TWO = CatalogBuilder().schema("one").build(), CatalogBuilder().schema("two").build()


def test_catalog_is_found_in_any_case() -> None:
    """Names keep their spelling, but are matched without it."""
    catalogs = Catalogs({"Lake": ONE, "other": TWO})

    assert catalogs.get("lake") is ONE
    assert catalogs.get("OTHER") is TWO
    assert catalogs.items() == [("Lake", ONE), ("other", TWO)]


def test_only_catalog_is_the_default() -> None:
    """The empty name means the only one there is."""
    catalogs = Catalogs({"Lake": ONE})

    assert catalogs.default == "Lake"
    assert catalogs.get("") is ONE


def test_default_is_named_among_several() -> None:
    """With several the default must be said."""
    assert Catalogs({"a": ONE, "b": TWO}, default="b").get("") is TWO
    assert Catalogs({"a": ONE, "b": TWO}, default="b").default == "b"


def test_several_without_a_default_have_none() -> None:
    """The empty name is not found then."""
    catalogs = Catalogs({"a": ONE, "b": TWO})

    assert catalogs.default == ""
    with pytest.raises(NotFoundError, match=r"^catalog '' not found$"):
        catalogs.get("")


def test_missing_catalog_is_named_with_a_hint() -> None:
    """A near match is offered."""
    with pytest.raises(NotFoundError, match=r"^catalog 'lak' not found. Did you mean 'Lake'\?$"):
        Catalogs({"Lake": ONE}).get("lak")


def test_catalogs_come_and_go() -> None:
    """The set may change while the server runs."""
    catalogs = Catalogs({"a": ONE})
    catalogs.add("b", TWO)
    catalogs.drop("A")

    assert catalogs.items() == [("b", TWO)]
    with pytest.raises(NotFoundError):
        catalogs.get("a")
    with pytest.raises(NotFoundError, match=r"^catalog 'a' not found$"):
        catalogs.drop("a")


@pytest.mark.parametrize("name", ["a", "A"])
def test_taken_name_is_refused(name: str) -> None:
    """Names differ in more than their case."""
    with pytest.raises(AlreadyExistsError, match=f"^catalog '{name}' already exists$"):
        Catalogs({"a": ONE}).add(name, TWO)


def test_catalog_needs_a_name() -> None:
    """The empty name means the default, so nothing can be called so."""
    with pytest.raises(ValueError, match="a catalog needs a name"):
        Catalogs({"": ONE})


class _Source:
    """Two catalogs with something behind them."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def catalogs(self, name: str) -> dict[str, Catalog]:
        return {name: ONE, "beside": TWO}

    def start(self) -> None:
        self.log.append("start")

    def stop(self) -> None:
        self.log.append("stop")


def test_source_lives_as_long_as_the_server() -> None:
    """All catalogs of a source are served, and it starts and stops with the rest."""
    source = _Source()
    catalogs = Catalogs({"main": source})
    assert source.log == []
    catalogs.start()
    catalogs.stop()
    catalogs.stop()

    assert [name for name, _ in catalogs.items()] == ["main", "beside"]
    assert source.log == ["start", "stop"]


def test_source_that_comes_later_is_started_at_once() -> None:
    """A database that is added at run time needs no restart, and is stopped when it is dropped."""
    source = _Source()
    catalogs = Catalogs()
    catalogs.start()
    catalogs.add("main", source)
    started = list(source.log)
    catalogs.drop("beside")
    kept = list(source.log)
    catalogs.drop("main")

    assert (started, kept, source.log) == (["start"], ["start"], ["start", "stop"])


def test_source_with_a_taken_name_is_refused_as_a_whole() -> None:
    """Nothing of it is served, and it is never started."""
    source = _Source()
    catalogs = Catalogs({"BESIDE": ONE})
    catalogs.start()

    with pytest.raises(AlreadyExistsError, match=r"^catalog 'beside' already exists$"):
        catalogs.add("main", source)
    assert [name for name, _ in catalogs.items()] == ["BESIDE"]
    assert source.log == []
