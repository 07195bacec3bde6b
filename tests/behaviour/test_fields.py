"""ALTER TABLE: fields of structs, at any depth."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import (
    AddField,
    Call,
    CreateTableOptions,
    DynamicSchema,
    RemoveField,
    RenameField,
    TableChange,
)
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    LastColumnError,
    NotFoundError,
    PreconditionError,
)
from tests.behaviour.engine import FullTable, columns_of, create, insert, values, version

INNER = pa.struct([("x", pa.int64()), ("y", pa.string())])
OUTER = pa.struct([("inner", INNER), ("n", pa.int64())])
DEEP = pa.struct([("outer", OUTER), ("m", pa.int64())])
Z = pa.field("z", pa.int32())


def nested(schema: DynamicSchema) -> FullTable:
    """Make a table with a struct in a struct in a struct, and nulls at each depth."""
    table = create(schema, {"s": DEEP, "k": pa.int64()})
    insert(
        table,
        [
            {"s": {"outer": {"inner": {"x": 1, "y": "a"}, "n": 2}, "m": 3}, "k": 1},
            {"s": {"outer": {"inner": None, "n": 4}, "m": None}, "k": 2},
            {"s": {"outer": None, "m": 5}, "k": 3},
            {"s": None, "k": 4},
        ],
    )
    return table


def test_field_is_added_to_a_column(schema: DynamicSchema) -> None:
    """Existing structs get null in the new field; null structs stay null."""
    table = nested(schema)
    table.alter(Call(), AddField(("S",), Z))

    assert [value and value["z"] for value in values(table, "s")] == [None, None, None, None]
    assert values(table, "s")[3] is None
    assert values(table, "s")[0]["outer"] == {"inner": {"x": 1, "y": "a"}, "n": 2}


def test_field_is_added_two_deep(schema: DynamicSchema) -> None:
    """A path leads to a struct within structs, whatever its letter case."""
    table = nested(schema)
    table.alter(Call(), AddField(("s", "OUTER", "inner"), Z))

    assert values(table, "s") == [
        {"outer": {"inner": {"x": 1, "y": "a", "z": None}, "n": 2}, "m": 3},
        {"outer": {"inner": None, "n": 4}, "m": None},
        {"outer": None, "m": 5},
        None,
    ]


def test_field_is_renamed_two_deep(schema: DynamicSchema) -> None:
    """Values stay under the new name."""
    table = nested(schema)
    table.alter(Call(), RenameField(("s", "outer", "inner", "X"), "renamed"))

    assert values(table, "s")[0] == {"outer": {"inner": {"renamed": 1, "y": "a"}, "n": 2}, "m": 3}
    assert values(table, "s")[1:] == [
        {"outer": {"inner": None, "n": 4}, "m": None},
        {"outer": None, "m": 5},
        None,
    ]


def test_field_is_removed_two_deep(schema: DynamicSchema) -> None:
    """The other fields stay."""
    table = nested(schema)
    table.alter(Call(), RemoveField(("s", "outer", "inner", "y")))

    assert values(table, "s")[0] == {"outer": {"inner": {"x": 1}, "n": 2}, "m": 3}


def test_field_may_be_there_already(schema: DynamicSchema) -> None:
    """IF NOT EXISTS changes nothing, and makes no version."""
    table = nested(schema)
    before = version(table)
    table.alter(Call(), AddField(("s", "outer"), pa.field("N", pa.string()), if_not_exists=True))

    assert columns_of(table).field("s").type == DEEP
    assert version(table) == before


def test_field_may_be_gone_already(schema: DynamicSchema) -> None:
    """IF EXISTS changes nothing, and makes no version."""
    table = nested(schema)
    before = version(table)
    table.alter(Call(), RemoveField(("s", "outer", "nothing"), if_exists=True))

    assert version(table) == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (AddField(("s",), pa.field("M", pa.int64())), AlreadyExistsError),
        (AddField(("s",), pa.field("", pa.int64())), InvalidRequestError),
        (AddField((), Z), InvalidRequestError),
        (AddField(("nothing",), Z), NotFoundError),
        (AddField(("s", "nothing"), Z), NotFoundError),
        (AddField(("k",), Z), InvalidRequestError),
        (AddField(("s", "m"), Z), InvalidRequestError),
        (RenameField(("s", "nothing"), "z"), NotFoundError),
        (RenameField(("s", "m"), "OUTER"), AlreadyExistsError),
        (RenameField(("s", "m"), ""), InvalidRequestError),
        (RenameField(("s",), "z"), InvalidRequestError),
        (RenameField((), "z"), InvalidRequestError),
        (RemoveField(("s", "nothing")), NotFoundError),
        (RemoveField(("k", "x")), InvalidRequestError),
        (RemoveField(("s",)), InvalidRequestError),
        (RemoveField(()), InvalidRequestError),
    ],
)
def test_refused_change_of_a_field_leaves_everything(
    schema: DynamicSchema, change: TableChange, error: type[Exception]
) -> None:
    """A change of a struct is made wholly or not at all."""
    table = nested(schema)
    before = version(table)

    with pytest.raises(error):
        table.alter(Call(), change)
    assert columns_of(table).field("s").type == DEEP
    assert version(table) == before


def test_last_field_stays(schema: DynamicSchema) -> None:
    """A struct keeps at least one field."""
    table = create(schema, {"s": pa.struct([("x", pa.int64())])})

    with pytest.raises(
        LastColumnError, match=r"^cannot drop column 'x': it is the last column of table 's'$"
    ):
        table.alter(Call(), RemoveField(("s", "x")))


@pytest.mark.parametrize("change", [RemoveField(("s", "x")), RenameField(("s", "x"), "z")])
def test_field_of_a_check_stays(schema: DynamicSchema, change: TableChange) -> None:
    """A CHECK that reads a field holds it, or no row could be written any more."""
    table = create(schema, {"s": INNER}, "t", CreateTableOptions(check_constraints=("s.x > 0",)))

    with pytest.raises(
        PreconditionError, match=r"^field 's.x' is used by CHECK \(s.x > 0\); drop that constraint first$"
    ):
        table.alter(Call(), change)
    assert insert(table, [{"s": {"x": 1, "y": "a"}}]) == 1
