"""ALTER TABLE: columns, one change at a time."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from sparkport.catalog import (
    AddColumn,
    AddColumnOptions,
    AddConstraint,
    Call,
    ChangeColumnType,
    CreateTableOptions,
    DropNotNull,
    DynamicSchema,
    RemoveColumn,
    RemoveColumnOptions,
    RenameColumn,
    SetComment,
    SetDefault,
    SetNotNull,
    TableChange,
    rowid_field,
)
from sparkport.errors import (
    AlreadyExistsError,
    CancelledError,
    ConstraintViolationError,
    InvalidRequestError,
    LastColumnError,
    NotFoundError,
    PreconditionError,
)
from tests.behaviour.engine import (
    FullTable,
    add,
    columns_of,
    create,
    ids,
    insert,
    numbers,
    rows,
    values,
    version,
)

TEXT = pa.string()
NUMBER = pa.int64()


def pairs(schema: DynamicSchema, options: CreateTableOptions | None = None) -> FullTable:
    """Make a table with columns `a` and `b` and two rows."""
    table = create(schema, {"a": NUMBER, "b": TEXT}, "t", options)
    insert(table, [{"a": 1, "b": "x"}, {"a": 2, "b": None}])
    return table


def test_added_column_comes_last_and_is_null(schema: DynamicSchema) -> None:
    """Rows from before the column have no value in it."""
    table = pairs(schema)
    table.alter(Call(), add("c", pa.int8()))

    assert columns_of(table).names == ["a", "b", "c"]
    assert rows(table) == [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": None}]


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        (pa.int8(), "1 + 1", 2),
        (pa.string(), "'it''s'", "it's"),
        (pa.float32(), "1.5", 1.5),
        (pa.bool_(), "true", True),
        (pa.list_(pa.int32()), "[1, 2]", [1, 2]),
        (pa.struct([("x", pa.int32())]), "{'x': 1}", {"x": 1}),
        (pa.string_view(), "'view'", "view"),
        (pa.dictionary(pa.int8(), pa.string()), "'red'", "red"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "'run'", "run"),
        (pa.int8(), "NULL", None),
    ],
)
def test_added_column_has_its_default_in_old_rows(
    schema: DynamicSchema, kind: pa.DataType, default: str, value: object
) -> None:
    """A default fills the rows that are there, and is kept for the clients."""
    table = pairs(schema)
    table.alter(Call(), add("c", kind, default))

    assert values(table, "c") == [value, value]
    assert columns_of(table).field("c").metadata == {b"default": default.encode()}


def test_added_column_with_a_default_may_be_not_null(schema: DynamicSchema) -> None:
    """A default makes a NOT NULL column possible where there are rows."""
    table = pairs(schema)
    table.alter(Call(), add("c", NUMBER, "7", nullable=False))

    assert values(table, "c") == [7, 7]
    with pytest.raises(ConstraintViolationError):
        insert(table, [{"a": 1, "b": "x", "c": None}])


def test_added_not_null_column_needs_a_default(schema: DynamicSchema) -> None:
    """Without a default old rows would break NOT NULL."""
    table = pairs(schema)

    with pytest.raises(
        ConstraintViolationError, match=r"^NOT NULL constraint of table 't' failed in column 'c'$"
    ):
        table.alter(Call(), add("c", NUMBER, nullable=False))
    assert columns_of(table).names == ["a", "b"]


def test_added_not_null_column_is_fine_without_rows(schema: DynamicSchema) -> None:
    """No rows, no nulls."""
    table = numbers(schema)
    table.alter(Call(), add("c", NUMBER, nullable=False))

    assert not columns_of(table).field("c").nullable


@pytest.mark.parametrize("name", ["a", "A"])
def test_added_column_needs_a_free_name(schema: DynamicSchema, name: str) -> None:
    """A column of that name, in any case, is a conflict."""
    with pytest.raises(AlreadyExistsError, match=f"^column '{name}' already exists$"):
        pairs(schema).alter(Call(), add(name, TEXT))


def test_added_column_may_be_there_already(schema: DynamicSchema) -> None:
    """IF NOT EXISTS changes nothing, and makes no version."""
    table = pairs(schema)
    before = version(table)
    table.alter(Call(), AddColumn(pa.field("A", TEXT), if_not_exists=True))

    assert columns_of(table) == pa.schema([("a", NUMBER), ("b", TEXT)])
    assert version(table) == before


@pytest.mark.parametrize("default", ["nonsense(", "a + 1", "(SELECT 1)", "'text'", "300", "count(*)"])
def test_added_column_needs_a_sensible_default(schema: DynamicSchema, default: str) -> None:
    """A default is a constant expression of the column's type."""
    table = pairs(schema)

    with pytest.raises(InvalidRequestError):
        table.alter(Call(), add("c", pa.int8(), default))
    assert columns_of(table).names == ["a", "b"]


def test_added_column_needs_a_name(schema: DynamicSchema) -> None:
    """A column without a name is refused."""
    with pytest.raises(InvalidRequestError, match=r"^a column needs a name$"):
        pairs(schema).alter(Call(), add("", TEXT))


def test_row_id_cannot_be_added(schema: DynamicSchema) -> None:
    """The row id belongs to the engine."""
    with pytest.raises(InvalidRequestError, match="row id column is made by the server"):
        pairs(schema).alter(Call(), AddColumn(rowid_field("mine")))


def test_add_column_takes_one_field(schema: DynamicSchema) -> None:
    """The contract's method takes a schema of exactly one field."""
    table = pairs(schema)
    table.add_column(Call(), pa.schema([("c", TEXT)]))
    table.add_column(Call(), pa.schema([("c", TEXT)]), AddColumnOptions(if_column_not_exists=True))

    assert columns_of(table).names == ["a", "b", "c"]
    with pytest.raises(InvalidRequestError, match="exactly one field, this one has 2"):
        table.add_column(Call(), pa.schema([("d", TEXT), ("e", TEXT)]))
    with pytest.raises(AlreadyExistsError):
        table.add_column(Call(), pa.schema([("c", TEXT)]))


def test_column_is_removed_with_its_values(schema: DynamicSchema) -> None:
    """The other columns and the row ids stay."""
    table = pairs(schema)
    before = ids(table)
    table.alter(Call(), RemoveColumn("A"))

    assert rows(table) == [{"b": "x"}, {"b": None}]
    assert ids(table) == before


def test_missing_column_is_not_removed(schema: DynamicSchema) -> None:
    """Removing what is not there is an error, with a near match as a hint."""
    table = create(schema, {"amount": NUMBER, "b": TEXT})

    with pytest.raises(NotFoundError, match=r"^column 'amuont' not found. Did you mean 'amount'\?$"):
        table.alter(Call(), RemoveColumn("amuont"))


def test_missing_column_can_be_ignored(schema: DynamicSchema) -> None:
    """IF EXISTS makes removing nothing fine, without a version."""
    table = pairs(schema)
    before = version(table)
    table.alter(Call(), RemoveColumn("nothing", if_exists=True))
    table.remove_column(Call(), "nothing", RemoveColumnOptions(if_column_exists=True))

    assert version(table) == before


def test_last_column_stays(schema: DynamicSchema) -> None:
    """A table keeps at least one column."""
    table = numbers(schema, 1)

    with pytest.raises(
        LastColumnError, match=r"^cannot drop column 'n': it is the last column of table 't'$"
    ):
        table.remove_column(Call(), "n")
    assert rows(table) == [{"n": 1}]


CONSTRAINED = [
    (CreateTableOptions(check_constraints=("a > 0",)), "CHECK (a > 0)"),
    (CreateTableOptions(unique_constraints=(0,)), "UNIQUE (a)"),
    (CreateTableOptions(primary_key=("a", "b")), "PRIMARY KEY"),
]


@pytest.mark.parametrize(("options", "text"), CONSTRAINED)
def test_column_of_a_constraint_stays(schema: DynamicSchema, options: CreateTableOptions, text: str) -> None:
    """Without cascade a constraint holds its columns, and is named."""
    table = create(schema, {"a": NUMBER, "b": TEXT}, "t", options)

    with pytest.raises(PreconditionError) as caught:
        table.alter(Call(), RemoveColumn("a"))
    assert str(caught.value) == f"column 'a' is used by {text}; drop it with CASCADE"
    assert columns_of(table).names == ["a", "b"]


@pytest.mark.parametrize(("options", "text"), CONSTRAINED)
def test_cascade_drops_the_constraint_too(
    schema: DynamicSchema, options: CreateTableOptions, text: str
) -> None:
    """With cascade the constraint goes with its column."""
    assert text
    table = create(schema, {"a": NUMBER, "b": TEXT}, "t", options)
    table.remove_column(Call(), "a", RemoveColumnOptions(cascade=True))

    assert columns_of(table).names == ["b"]
    assert table.constraints.checks == ()
    assert table.constraints.primary_key == ()
    assert table.constraints.unique_keys == ()
    assert insert(table, [{"b": "same"}, {"b": "same"}]) == 2


def test_column_is_renamed_with_its_values(schema: DynamicSchema) -> None:
    """A renamed column keeps place, type and metadata."""
    table = create(schema, pa.schema([pa.field("a", NUMBER, metadata={"comment": "c"}), pa.field("b", TEXT)]))
    insert(table, [{"a": 1, "b": "x"}])
    table.alter(Call(), RenameColumn("A", "new name"))

    assert rows(table) == [{"new name": 1, "b": "x"}]
    assert columns_of(table).field(0).metadata == {b"comment": b"c"}


def test_column_is_renamed_to_another_case(schema: DynamicSchema) -> None:
    """A change of case is a rename, not a conflict."""
    table = pairs(schema)
    table.alter(Call(), RenameColumn("a", "A"))

    assert columns_of(table).names == ["A", "b"]


def test_renamed_column_stays_in_its_constraints(schema: DynamicSchema) -> None:
    """Constraints follow the new name."""
    options = CreateTableOptions(check_constraints=("a > 0 AND b <> 'a'",), primary_key=("a",))
    table = create(schema, {"a": NUMBER, "b": TEXT}, "t", options)
    table.alter(Call(), RenameColumn("a", "the key"))

    assert table.constraints.primary_key == ("the key",)
    with pytest.raises(ConstraintViolationError, match="CHECK"):
        insert(table, [{"the key": 0, "b": "x"}])
    with pytest.raises(ConstraintViolationError, match="PRIMARY KEY"):
        insert(table, [{"the key": 1, "b": "x"}, {"the key": 1, "b": "y"}])
    assert insert(table, [{"the key": 1, "b": "x"}]) == 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (RenameColumn("nothing", "c"), NotFoundError),
        (RenameColumn("a", "B"), AlreadyExistsError),
        (RenameColumn("a", ""), InvalidRequestError),
        (RemoveColumn("nothing"), NotFoundError),
        (ChangeColumnType("nothing", TEXT), NotFoundError),
        (SetDefault("nothing", "1"), NotFoundError),
        (SetNotNull("nothing"), NotFoundError),
        (DropNotNull("nothing"), NotFoundError),
        (SetNotNull("b"), ConstraintViolationError),
        (SetDefault("a", "nonsense("), InvalidRequestError),
        (SetDefault("a", "'text'"), InvalidRequestError),
        (SetDefault("a", "b"), InvalidRequestError),
        (ChangeColumnType("b", NUMBER), InvalidRequestError),
        (ChangeColumnType("a", TEXT, "nothing + 1"), InvalidRequestError),
        (ChangeColumnType("a", TEXT, "(SELECT 1)"), InvalidRequestError),
        (ChangeColumnType("a", TEXT, "max(a)"), InvalidRequestError),
        (AddConstraint("CHECK (nothing > 0)"), InvalidRequestError),
        (AddConstraint("nonsense"), InvalidRequestError),
        (AddConstraint("c INTEGER UNIQUE"), InvalidRequestError),
    ],
)
def test_refused_change_leaves_everything(
    schema: DynamicSchema, change: TableChange, error: type[Exception]
) -> None:
    """A change is made wholly or not at all."""
    table = pairs(schema)
    before = version(table)

    with pytest.raises(error):
        table.alter(Call(), change)
    assert columns_of(table).equals(pa.schema([("a", NUMBER), ("b", TEXT)]), check_metadata=True)
    assert rows(table) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert version(table) == before


def test_type_is_changed_where_values_fit(schema: DynamicSchema) -> None:
    """Without USING a value is converted."""
    table = pairs(schema)
    table.alter(Call(), ChangeColumnType("A", TEXT))

    assert columns_of(table).field("a").type == TEXT
    assert values(table, "a") == ["1", "2"]


def test_type_is_changed_by_an_expression(schema: DynamicSchema) -> None:
    """USING may read every column of the row."""
    table = pairs(schema)
    table.alter(Call(), ChangeColumnType("b", pa.int32(), "coalesce(length(b), a * 10)"))

    assert rows(table) == [{"a": 1, "b": 1}, {"a": 2, "b": 20}]


@pytest.mark.parametrize("using", ["NULL", "CASE WHEN a > 5 THEN NULL END"])
@pytest.mark.parametrize(
    "kind", [pa.uuid(), pa.list_(pa.uuid()), pa.time64("us"), pa.struct([("x", NUMBER)])]
)
def test_type_is_changed_to_nulls(schema: DynamicSchema, kind: pa.DataType, using: str) -> None:
    """NULL in USING is one of the new type, whatever that is."""
    table = pairs(schema)
    table.alter(Call(), ChangeColumnType("b", kind, using))

    assert columns_of(table).field("b").type == kind
    assert rows(table) == [{"a": 1, "b": None}, {"a": 2, "b": None}]


def test_type_change_names_a_default_that_does_not_fit(schema: DynamicSchema) -> None:
    """A default that is none of the new type is to be dropped first."""
    default = "38" + "0" * 30
    table = create(schema, pa.schema([pa.field("c", pa.float64(), metadata={"default": default})]))
    insert(table, [{"c": 1.0}])
    change = ChangeColumnType("c", pa.time64("us"), "TIME '01:02:44'")
    with pytest.raises(InvalidRequestError) as refused:
        table.alter(Call(), change)
    table.alter(Call(), SetDefault("c", ""))
    table.alter(Call(), change)

    assert str(refused.value) == (
        f"the default of column 'c', {default}, does not fit its new type time64[us]; drop the default first"
    )
    assert rows(table) == [{"c": dt.time(1, 2, 44)}]


def test_type_change_may_not_break_constraints(schema: DynamicSchema) -> None:
    """NOT NULL, CHECK and keys hold after the change too."""
    options = CreateTableOptions(
        not_null_constraints=(1,), unique_constraints=(0,), check_constraints=("a < 5",)
    )
    table = create(schema, {"a": NUMBER, "b": TEXT}, "t", options)
    insert(table, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])

    for change, kind in [
        (ChangeColumnType("b", TEXT, "NULL"), "NOT NULL"),
        (ChangeColumnType("a", pa.int32(), "1"), "UNIQUE"),
        (ChangeColumnType("a", pa.int32(), "a * 4"), "CHECK"),
    ]:
        with pytest.raises(ConstraintViolationError, match=kind):
            table.alter(Call(), change)
    assert rows(table) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


def test_type_change_keeps_default_and_nullability(schema: DynamicSchema) -> None:
    """The field is the same but for its type."""
    field = pa.field("a", NUMBER, nullable=False, metadata={"default": "1"})
    table = create(schema, pa.schema([field]))
    table.alter(Call(), ChangeColumnType("a", pa.int16()))

    assert columns_of(table).field("a").equals(field.with_type(pa.int16()), check_metadata=True)


def test_type_change_drops_the_extension_of_the_old_type(schema: DynamicSchema) -> None:
    """A geometry that becomes a text is no longer marked as a geometry."""
    marked = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}", "comment": "c"}
    table = create(schema, pa.schema([pa.field("g", pa.binary(), metadata=marked)]))
    table.alter(Call(), ChangeColumnType("g", TEXT, "'text'"))

    assert columns_of(table).field("g").metadata == {b"comment": b"c"}


def test_comments_are_set_and_removed(schema: DynamicSchema) -> None:
    """Of a table and of its columns; rows do not change."""
    table = pairs(schema)
    table.alter(Call(), SetComment("of the table"))
    table.alter(Call(), SetComment("of a", "A"))
    comments = table.comment, columns_of(table).field("a").metadata
    table.alter(Call(), SetComment(""))
    table.alter(Call(), SetComment("", "a"))

    assert comments == ("of the table", {b"comment": b"of a"})
    assert table.comment == ""
    assert not columns_of(table).field("a").metadata
    assert values(table, "a") == [1, 2]
    with pytest.raises(NotFoundError):
        table.alter(Call(), SetComment("x", "nothing"))


def test_default_is_set_changed_and_dropped(schema: DynamicSchema) -> None:
    """Defaults are for the clients; rows do not change."""
    table = pairs(schema)
    table.alter(Call(), SetDefault("A", "40 + 2"))
    first = columns_of(table).field("a").metadata
    table.alter(Call(), SetDefault("a", "7"))
    second = columns_of(table).field("a").metadata
    table.alter(Call(), SetDefault("a", ""))

    assert (first, second) == ({b"default": b"40 + 2"}, {b"default": b"7"})
    assert not columns_of(table).field("a").metadata
    assert values(table, "a") == [1, 2]


def test_not_null_is_set_and_dropped(schema: DynamicSchema) -> None:
    """NOT NULL is enforced while it is there."""
    table = pairs(schema)
    table.alter(Call(), SetNotNull("A"))

    with pytest.raises(
        ConstraintViolationError, match=r"^NOT NULL constraint of table 't' failed in column 'a'$"
    ):
        insert(table, [{"a": None, "b": "x"}])
    table.alter(Call(), DropNotNull("a"))
    assert insert(table, [{"a": None, "b": "x"}]) == 1


def test_primary_key_stays_not_null(schema: DynamicSchema) -> None:
    """A column of the primary key cannot be made nullable."""
    table = pairs(schema, CreateTableOptions(primary_key=("a",)))

    with pytest.raises(PreconditionError, match="part of the primary key"):
        table.alter(Call(), DropNotNull("A"))


def test_cancelled_change_is_not_made(schema: DynamicSchema) -> None:
    """A client that is gone changes nothing."""
    table = pairs(schema)
    call = Call()
    call.cancel()

    with pytest.raises(CancelledError):
        table.alter(call, add("c", TEXT))
    assert columns_of(table).names == ["a", "b"]
