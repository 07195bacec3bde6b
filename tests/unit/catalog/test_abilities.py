"""Asking what a backend can do."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from sparkport.catalog import Call
from sparkport.catalog.abilities import abilities_of
from sparkport.catalog.tables import ConstrainedTable, Table, TableConstraints, VersionedCatalog


class Costly:
    """A table whose properties must not be looked at without need."""

    asked = 0

    @property
    def name(self) -> str:
        """Count how often it is asked."""
        self.asked += 1
        raise OSError("the log cannot be read")

    comment = name
    arrow_schema = name

    def scan(self, call: Call, options: object) -> None:
        """Return nothing."""


class Constrained(Costly):
    constraints = TableConstraints()


@dataclass
class Fields:
    """A table whose members are its instances'."""

    name: str
    comment: str = ""
    arrow_schema: None = None

    def scan(self, call: Call, options: object) -> None:
        """Return nothing."""


def test_no_property_is_evaluated() -> None:
    """What a class has need not be looked for on its instances."""
    table, constrained = Costly(), Constrained()

    assert isinstance(table, Table)
    assert not isinstance(table, ConstrainedTable)
    assert isinstance(constrained, ConstrainedTable)
    assert (table.asked, constrained.asked) == (0, 0)


def test_members_of_the_instance_count() -> None:
    """A dataclass and an object made of attributes are tables like others."""
    loose = SimpleNamespace(name="t", comment="", arrow_schema=None, scan=print)

    assert isinstance(Fields("t"), Table)
    assert isinstance(loose, Table)
    assert not isinstance(loose, ConstrainedTable)

    loose.constraints = TableConstraints()

    assert isinstance(loose, ConstrainedTable)
    assert not isinstance(SimpleNamespace(name="t", comment="", arrow_schema=None, scan=None), Table)


def test_a_method_that_is_none_is_no_ability() -> None:
    """A subclass takes an ability back by setting its method to None."""

    class Silent(Fields):
        scan = None  # type: ignore[assignment]

    assert not isinstance(Silent("t"), Table)


def test_what_lacks_a_member_is_refused() -> None:
    """A catalog without a version is no versioned one, and a class of its own is asked as usual."""

    class Unversioned:
        def schemas(self, call: Call) -> tuple[()]:
            """Return no schemas."""
            call.check()
            return ()

        schema = schemas

    class Nominal(ConstrainedTable): ...

    assert not isinstance(Unversioned(), VersionedCatalog)
    assert not isinstance(Constrained(), Nominal)
    with pytest.raises(TypeError, match="abstract"):
        Nominal()  # type: ignore[abstract]


def test_many_protocols_are_asked_for_at_once() -> None:
    """What an object follows is the same as asking for one protocol after the other."""

    class Absent(Fields):
        constraints = None

    class Dynamic:
        def __getattr__(self, name: str) -> str:
            return name

    loose = SimpleNamespace(name="t", comment="", arrow_schema=None, scan=print, constraints=None)
    protocols = (Table, ConstrainedTable, VersionedCatalog)
    for thing in (Costly(), Constrained(), Fields("t"), Absent("t"), Dynamic(), loose, object()):
        expected = tuple(protocol for protocol in protocols if isinstance(thing, protocol))

        assert abilities_of(thing, protocols) == expected, thing
    assert Costly.asked == 0
