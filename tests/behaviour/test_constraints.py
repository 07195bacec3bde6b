"""NOT NULL, CHECK, UNIQUE and PRIMARY KEY: declared, added, enforced."""

from __future__ import annotations

import decimal
import math
import uuid

import pyarrow as pa
import pytest

from sparkport.catalog import AddConstraint, Call, CreateTableOptions, DynamicSchema, TableConstraints
from sparkport.errors import AlreadyExistsError, ConstraintViolationError, InvalidRequestError
from tests.behaviour.engine import (
    columns_of,
    create,
    delete,
    id_of,
    ids,
    insert,
    numbers,
    rows,
    update,
    values,
)

PAIR = {"a": pa.int64(), "b": pa.int64()}


def test_declared_constraints_are_listed(schema: DynamicSchema) -> None:
    """A table tells what it enforces, in the spelling of its columns."""
    options = CreateTableOptions(
        not_null_constraints=(1,),
        unique_constraints=(1,),
        check_constraints=("a > 0",),
        primary_key=("A",),
        unique_keys=(("B", "a"),),
        table_constraints=("UNIQUE (b)", "CHECK (b < 9)"),
    )
    table = create(schema, PAIR, "t", options)

    assert table.constraints == TableConstraints(
        checks=("a > 0", "(b < 9)"), primary_key=("a",), unique_keys=(("b", "a"), ("b",))
    )
    assert [field.nullable for field in columns_of(table)] == [False, False]


@pytest.mark.parametrize(
    "options",
    [
        CreateTableOptions(not_null_constraints=(2,)),
        CreateTableOptions(not_null_constraints=(-1,)),
        CreateTableOptions(unique_constraints=(2,)),
        CreateTableOptions(primary_key=("nothing",)),
        CreateTableOptions(unique_keys=(("a", "nothing"),)),
        CreateTableOptions(check_constraints=("nothing > 0",)),
        CreateTableOptions(check_constraints=("a >",)),
        CreateTableOptions(check_constraints=("sum(a) > 0",)),
        CreateTableOptions(check_constraints=("a IN (SELECT 1)",)),
        CreateTableOptions(check_constraints=("row_number() OVER () > 0",)),
        CreateTableOptions(check_constraints=("COLUMNS(*) > 0",)),
        CreateTableOptions(check_constraints=("'text'",)),
        CreateTableOptions(table_constraints=("FOREIGN KEY (a) REFERENCES x (a)",)),
        CreateTableOptions(table_constraints=("c INTEGER UNIQUE",)),
        CreateTableOptions(table_constraints=("UNIQUE (a), UNIQUE (b)",)),
        CreateTableOptions(primary_key=("a",), table_constraints=("PRIMARY KEY (b)",)),
        CreateTableOptions(table_constraints=("PRIMARY KEY (a)", "PRIMARY KEY (b)")),
    ],
)
def test_senseless_constraint_is_refused(schema: DynamicSchema, options: CreateTableOptions) -> None:
    """A table with a constraint that cannot hold is not made."""
    with pytest.raises(InvalidRequestError):
        create(schema, PAIR, "t", options)
    assert schema.table(Call(), "t") is None


def test_not_null_is_enforced(schema: DynamicSchema) -> None:
    """A null in a NOT NULL column is refused on INSERT and UPDATE."""
    table = create(schema, PAIR, "t", CreateTableOptions(not_null_constraints=(0,)))
    insert(table, [{"a": 1, "b": None}])
    expected = "^NOT NULL constraint of table 't' failed in column 'a'$"

    with pytest.raises(ConstraintViolationError, match=expected):
        insert(table, [{"a": None, "b": 1}])
    with pytest.raises(ConstraintViolationError, match=expected):
        update(table, ids(table), {"a": [None]})
    assert rows(table) == [{"a": 1, "b": None}]


@pytest.mark.parametrize(
    "values_with_null",
    [
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([None], pa.string())),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([None], pa.string())),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([None], pa.int64())], ["n"]),
    ],
    ids=["dictionary", "run-end", "union"],
)
def test_null_hidden_in_an_encoding_is_a_null(schema: DynamicSchema, values_with_null: pa.Array) -> None:
    """NOT NULL looks at values, not at the outermost bitmap."""
    field = pa.field("c", values_with_null.type, nullable=False)
    table = create(schema, pa.schema([field]))

    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        table.insert(Call(), pa.table([values_with_null], ["c"]).to_reader())
    assert read_count(table.snapshot(Call(), None).row_count) == 0


def read_count(count: int | None) -> int:
    """Return a count that must be known."""
    assert count is not None
    return count


def test_check_is_enforced_and_shows_the_row(schema: DynamicSchema) -> None:
    """A row for which a CHECK is false is refused; NULL passes."""
    table = create(schema, PAIR, "t", CreateTableOptions(check_constraints=("a > b",)))
    insert(table, [{"a": 2, "b": 1}, {"a": None, "b": 1}])

    with pytest.raises(ConstraintViolationError) as caught:
        insert(table, [{"a": 5, "b": 4}, {"a": 1, "b": 1}])
    assert str(caught.value) == "CHECK (a > b) constraint of table 't' failed: a=1, b=1"
    with pytest.raises(ConstraintViolationError):
        update(table, ids(table)[:1], {"b": [2]})
    assert rows(table) == [{"a": 2, "b": 1}, {"a": None, "b": 1}]


def test_check_may_be_a_number(schema: DynamicSchema) -> None:
    """As in SQL, zero is false and other numbers are true."""
    table = create(schema, PAIR, "t", CreateTableOptions(check_constraints=("a",)))

    assert insert(table, [{"a": 2, "b": 1}]) == 1
    with pytest.raises(ConstraintViolationError):
        insert(table, [{"a": 0, "b": 1}])


@pytest.mark.parametrize(
    "expression",
    [
        '"odd name" > 0',
        "list_sum(l) > 0",
        "list_filter(l, x -> x > 0) = l",
        "s.x > 0",
        "s['x'] > 0",
        "(j -> '$.a') = '1'",
    ],
)
def test_check_may_use_what_duckdb_has(schema: DynamicSchema, expression: str) -> None:
    """A CHECK is an expression in DuckDB's SQL over all columns."""
    columns = {
        "odd name": pa.int64(),
        "l": pa.list_(pa.int64()),
        "s": pa.struct([("x", pa.int64())]),
        "j": pa.string(),
        "h": pa.float16(),
    }
    table = create(schema, columns, "t", CreateTableOptions(check_constraints=(expression,)))

    assert insert(table, [{"odd name": 1, "l": [1], "s": {"x": 1}, "j": '{"a":1}', "h": 1.0}]) == 1
    with pytest.raises(ConstraintViolationError):
        insert(table, [{"odd name": -1, "l": [-1], "s": {"x": -1}, "j": '{"a":2}', "h": 1.0}])


def test_unique_key_is_enforced(schema: DynamicSchema) -> None:
    """A second row of the same key is refused, in one statement and over two."""
    table = create(schema, PAIR, "t", CreateTableOptions(unique_constraints=(0,)))
    insert(table, [{"a": 1, "b": 1}])

    with pytest.raises(ConstraintViolationError) as caught:
        insert(table, [{"a": 1, "b": 2}])
    assert str(caught.value) == "UNIQUE constraint of table 't' failed in column 'a': a=1"
    with pytest.raises(ConstraintViolationError):
        insert(table, [{"a": 2, "b": 2}, {"a": 2, "b": 3}])
    assert rows(table) == [{"a": 1, "b": 1}]


def test_nulls_do_not_meet_in_a_unique_key(schema: DynamicSchema) -> None:
    """Any number of rows may have NULL in a UNIQUE key, also in a part of it."""
    table = create(schema, PAIR, "t", CreateTableOptions(unique_keys=(("a", "b"),)))

    assert (
        insert(table, [{"a": None, "b": 1}, {"a": None, "b": 1}, {"a": 1, "b": None}, {"a": 1, "b": None}])
        == 4
    )


def test_composite_key_counts_as_a_whole(schema: DynamicSchema) -> None:
    """Parts may repeat, the whole key may not."""
    table = create(schema, PAIR, "t", CreateTableOptions(primary_key=("a", "b")))
    insert(table, [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}])

    with pytest.raises(ConstraintViolationError) as caught:
        insert(table, [{"a": 1, "b": 2}])
    assert str(caught.value) == "PRIMARY KEY constraint of table 't' failed in column 'a, b': a=1, b=2"
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        insert(table, [{"a": 1, "b": None}])


def test_update_to_a_taken_key_is_refused(schema: DynamicSchema) -> None:
    """An UPDATE may not make two rows of one key."""
    table = create(schema, PAIR, "t", CreateTableOptions(primary_key=("a",)))
    insert(table, [{"a": 1, "b": 1}, {"a": 2, "b": 2}])

    with pytest.raises(ConstraintViolationError, match="PRIMARY KEY"):
        update(table, [id_of(table, "a", 2)], {"a": [1]})
    assert values(table, "a") == [1, 2]


def test_update_may_swap_keys(schema: DynamicSchema) -> None:
    """Keys are checked when the whole statement is applied."""
    table = create(schema, PAIR, "t", CreateTableOptions(primary_key=("a",)))
    insert(table, [{"a": 1, "b": 1}, {"a": 2, "b": 2}])

    assert update(table, ids(table), {"a": [2, 1]}) == 2
    assert values(table, "a") == [2, 1]


def test_deleted_key_is_free_again(schema: DynamicSchema) -> None:
    """A key belongs to rows that exist."""
    table = create(schema, PAIR, "t", CreateTableOptions(primary_key=("a",)))
    insert(table, [{"a": 1, "b": 1}])
    delete(table, ids(table))

    assert insert(table, [{"a": 1, "b": 2}]) == 1


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        (pa.string_view(), "a", "b"),
        (pa.binary_view(), b"a", b"b"),
        (pa.float16(), 1.0, 2.0),
        (pa.float64(), math.nan, 1.0),
        (pa.decimal256(50, 2), decimal.Decimal("1.00"), decimal.Decimal("2.00")),
        (pa.uuid(), uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes),
        (pa.dictionary(pa.int8(), pa.string()), "a", "b"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "a", "b"),
        (pa.list_(pa.int64()), [1, 2], [2, 1]),
        (pa.struct([("x", pa.int64())]), {"x": 1}, {"x": 2}),
        (pa.month_day_nano_interval(), pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([1, 2, 4])),
        (pa.timestamp("ns", "UTC"), 1, 2),
        (pa.bool_(), True, False),
        (pa.null(), None, None),
    ],
    ids=str,
)
def test_column_of_every_type_can_be_a_key(
    schema: DynamicSchema, kind: pa.DataType, value: object, other: object
) -> None:
    """UNIQUE compares values, whatever their type."""
    table = create(schema, {"c": kind}, "t", CreateTableOptions(unique_constraints=(0,)))
    null = pa.table([pa.nulls(2, kind)], ["c"])

    def column(*items: object) -> pa.RecordBatchReader:
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        if isinstance(kind, pa.RunEndEncodedType):
            array = pa.compute.run_end_encode(pa.array(items, kind.value_type))
        else:
            array = pa.array(items, storage)
        return pa.table([array], ["c"]).to_reader()

    assert table.insert(Call(), null.to_reader()).affected_rows == 2
    assert table.insert(Call(), column(value, other)).affected_rows == 2
    if value is not None:
        with pytest.raises(ConstraintViolationError, match="UNIQUE"):
            table.insert(Call(), column(value))


def test_check_is_added_to_rows_that_keep_it(schema: DynamicSchema) -> None:
    """An added CHECK holds from then on."""
    table = numbers(schema, 1, 2)
    table.alter(Call(), AddConstraint("CHECK (N > 0)"))

    with pytest.raises(ConstraintViolationError, match="CHECK"):
        insert(table, [{"n": 0}])


def test_keys_are_added_to_rows_that_keep_them(schema: DynamicSchema) -> None:
    """An added key holds from then on, and a primary key is NOT NULL."""
    table = numbers(schema, 1, 2)
    table.alter(Call(), AddConstraint("UNIQUE (n)"))
    table.alter(Call(), AddConstraint("PRIMARY KEY (N)"))

    assert table.constraints == TableConstraints((), ("n",), (("n",),))
    with pytest.raises(ConstraintViolationError):
        insert(table, [{"n": 1}])
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        insert(table, [{"n": None}])


@pytest.mark.parametrize(
    ("values_", "constraint"),
    [
        ([1, -1], "CHECK (n > 0)"),
        ([1, 1], "UNIQUE (n)"),
        ([1, 1], "PRIMARY KEY (n)"),
        ([1, None], "PRIMARY KEY (n)"),
    ],
)
def test_constraint_that_rows_break_is_not_added(
    schema: DynamicSchema, values_: list[int | None], constraint: str
) -> None:
    """Existing rows are checked first."""
    table = create(schema, {"n": pa.int64()})
    insert(table, [{"n": value} for value in values_])

    with pytest.raises(ConstraintViolationError):
        table.alter(Call(), AddConstraint(constraint))
    assert table.constraints == TableConstraints()
    assert columns_of(table).field("n").nullable


def test_second_primary_key_is_refused(schema: DynamicSchema) -> None:
    """A table has at most one primary key."""
    table = create(schema, PAIR, "t", CreateTableOptions(primary_key=("a",)))

    with pytest.raises(AlreadyExistsError, match=r"^primary key of table 't' already exists$"):
        table.alter(Call(), AddConstraint("PRIMARY KEY (b)"))
