from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, TablePath, TimePoint, TimeUnit
from sparkport.catalog.lookup import current_arrow_schema, find_column, find_schema, find_table
from sparkport.errors import InvalidRequestError, NotFoundError
from sparkport.toolkit import CatalogBuilder, StaticSchema

NUMBERS = pa.table({"n": [1]})
CATALOG = CatalogBuilder().schema("Sales").table("Orders", NUMBERS).table("customers", NUMBERS).build()


def sales() -> StaticSchema:
    """Return the schema of the catalog."""
    return CATALOG.by_name["Sales"]


@pytest.mark.parametrize("name", ["Sales", "sales", "SALES"])
def test_schema_is_found_in_any_case(name: str) -> None:
    """A static catalog knows exact names; looking up does not."""
    assert find_schema(Call(), CATALOG, name).name == "Sales"


@pytest.mark.parametrize("name", ["Orders", "orders", "ORDERS"])
def test_table_is_found_in_any_case(name: str) -> None:
    """As DuckDB finds it."""
    assert find_table(Call(), sales(), name).name == "Orders"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sale", "schema 'sale' not found. Did you mean 'Sales'?"),
        ("xyz", "schema 'xyz' not found"),
        ("", "schema '' not found"),
    ],
)
def test_missing_schema_is_named_with_a_hint(name: str, message: str) -> None:
    """A near match is offered, a far one is not."""
    with pytest.raises(NotFoundError) as caught:
        find_schema(Call(), CATALOG, name)
    assert str(caught.value) == message
    assert (caught.value.kind, caught.value.name) == ("schema", name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ordrs", "table 'Sales.ordrs' not found. Did you mean 'Orders'?"),
        ("Customer", "table 'Sales.Customer' not found. Did you mean 'customers'?"),
        ("qqq", "table 'Sales.qqq' not found"),
    ],
)
def test_missing_table_is_named_with_a_hint(name: str, message: str) -> None:
    """The table is named with its schema, the hint without."""
    with pytest.raises(NotFoundError) as caught:
        find_table(Call(), sales(), name)
    assert str(caught.value) == message


def test_column_is_found_in_any_case() -> None:
    """The exact spelling comes first."""
    schema = pa.schema([("A", pa.int8()), ("a", pa.int8()), ("bB", pa.int8())])

    assert [find_column(schema, name) for name in ("A", "a", "BB")] == [0, 1, 2]


def test_missing_column_is_named_with_a_hint() -> None:
    """A near match is offered."""
    with pytest.raises(NotFoundError, match=r"^column 'amuont' not found. Did you mean 'amount'\?$"):
        find_column(pa.schema([("amount", pa.int8())]), "amuont")


def test_static_table_has_no_history() -> None:
    """Time travel on a table that has no versions is refused."""
    table = find_table(Call(), sales(), "orders")

    assert current_arrow_schema(Call(), table) == NUMBERS.schema
    with pytest.raises(InvalidRequestError, match=r"^table 'Orders' does not support time travel$"):
        current_arrow_schema(Call(), table, TimePoint(TimeUnit.VERSION, "1"))


def test_path_reads_as_schema_and_table() -> None:
    """The catalog is the client's own name, so it is not shown."""
    assert str(TablePath("attached", "sales", "orders")) == "sales.orders"
