from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import sparkport.catalog
from sparkport.catalog import (
    Call,
    Catalog,
    DynamicCatalog,
    DynamicSchema,
    DynamicTable,
    ScalarFunction,
    Schema,
    Statement,
    Table,
    TransactionManager,
)

PROTOCOLS = [
    value
    for _, value in inspect.getmembers(sparkport.catalog, inspect.isclass)
    if getattr(value, "_is_protocol", False)
]


def test_every_protocol_is_covered() -> None:
    """The list below is not empty by accident."""
    assert {Catalog, Schema, Table, DynamicTable, Statement, TransactionManager} <= set(PROTOCOLS)
    assert len(PROTOCOLS) == 31


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_class_that_forgets_a_method_cannot_be_made(protocol: type[Any]) -> None:
    """Who subclasses a protocol and leaves something out learns of it at once."""
    forgetful = type("Forgetful", (protocol,), {})

    assert protocol.__abstractmethods__
    with pytest.raises(TypeError, match="abstract"):
        forgetful()


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_protocol_says_what_it_promises(protocol: type[Any]) -> None:
    """Each protocol and each of its methods has a docstring: that is the contract."""
    assert protocol.__doc__
    for name in protocol.__abstractmethods__:
        assert getattr(protocol, name).__doc__, name


@pytest.mark.parametrize("protocol", [Catalog, Schema, Table, DynamicCatalog, DynamicSchema, ScalarFunction])
def test_abilities_are_told_apart_at_run_time(protocol: type[Any]) -> None:
    """An object without the methods does not have the ability."""
    assert not isinstance(Call(), protocol)


def test_every_name_is_in_one_group() -> None:
    """The docstring of the package lists all names by what they are for, and nothing else."""
    groups = re.findall(r"^    [A-Za-z, _]+$", sparkport.catalog.__doc__ or "", re.MULTILINE)
    names = [name for line in groups for name in re.findall(r"\w+", line)]

    assert sorted(names) == sorted(sparkport.catalog.__all__)
