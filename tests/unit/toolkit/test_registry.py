from __future__ import annotations

import pytest

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
