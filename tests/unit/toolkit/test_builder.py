from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, Catalog, ScanOptions, Schema, StatisticsTable, Table, VersionedCatalog
from sparkport.catalog.predicates import Unknown
from sparkport.errors import CancelledError, NotFoundError
from sparkport.toolkit import CatalogBuilder, StaticTable

NUMBERS = pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]})


def built(builder: CatalogBuilder, schema: str = "demo", table: str = "numbers") -> Table:
    """Return a table of the catalog that the builder makes."""
    found = builder.build().schema(Call(), schema)
    assert found is not None
    made = found.table(Call(), table)
    assert made is not None
    return made


def test_tables_belong_to_the_schema_before_them() -> None:
    """A fluent chain reads like the catalog it makes."""
    catalog = (
        CatalogBuilder()
        .schema("a", comment="first")
        .table("x", NUMBERS, comment="numbers")
        .schema("b")
        .table("x", NUMBERS)
        .table("y", NUMBERS)
        .build()
    )
    listing = {
        schema.name: [table.name for table in schema.tables(Call())] for schema in catalog.schemas(Call())
    }

    assert listing == {"a": ["x"], "b": ["x", "y"]}
    first = catalog.schema(Call(), "a")
    assert first is not None
    assert first.comment == "first"
    found = first.table(Call(), "x")
    assert found is not None
    assert (found.comment, found.arrow_schema) == ("numbers", NUMBERS.schema)


def test_built_catalog_keeps_the_contracts() -> None:
    """What is built is a catalog of schemas of tables, with one version for ever."""
    catalog = CatalogBuilder().schema("demo").table("numbers", NUMBERS).build()
    schema = catalog.schema(Call(), "demo")

    assert isinstance(catalog, Catalog)
    assert isinstance(catalog, VersionedCatalog)
    assert isinstance(schema, Schema)
    assert isinstance(schema.table(Call(), "numbers"), Table)
    assert catalog.catalog_version(Call()).is_fixed
    assert list(schema.scalar_functions(Call())) == []
    assert list(schema.table_functions(Call())) == []


def test_missing_names_are_none() -> None:
    """Looking up what is not there is no error."""
    catalog = CatalogBuilder().schema("demo").build()
    schema = catalog.schema(Call(), "demo")

    assert catalog.schema(Call(), "nothing") is None
    assert schema is not None
    assert schema.table(Call(), "nothing") is None
    assert list(schema.tables(Call())) == []


def test_rows_in_memory_are_scanned() -> None:
    """Columns and limit are applied; zero or less is no limit."""
    table = built(CatalogBuilder().schema("demo").table("numbers", NUMBERS))

    assert table.scan(Call(), ScanOptions()).read_all() == NUMBERS
    assert table.scan(Call(), ScanOptions(columns=("s",), limit=2)).read_all().to_pydict() == {
        "s": ["a", "b"]
    }
    assert table.scan(Call(), ScanOptions(limit=0)).read_all().num_rows == 3
    assert table.scan(Call(), ScanOptions(limit=-1)).read_all().num_rows == 3
    assert [batch.num_rows for batch in table.scan(Call(), ScanOptions(batch_size=2))] == [2, 1]


def test_limit_waits_for_the_filter() -> None:
    """A table that does not filter cannot know which rows a limit counts."""
    table = built(CatalogBuilder().schema("demo").table("numbers", NUMBERS))

    assert table.scan(Call(), ScanOptions(filter=Unknown("n = 3"), limit=1)).read_all().num_rows == 3


def test_reader_is_called_for_each_scan() -> None:
    """A stream is fresh each time."""
    builder = CatalogBuilder().schema("demo")
    builder.table("numbers", reader=NUMBERS.to_reader, arrow_schema=NUMBERS.schema)
    table = built(builder)

    assert table.scan(Call(), ScanOptions()).read_all() == NUMBERS
    assert table.scan(Call(), ScanOptions()).read_all() == NUMBERS


def test_scan_function_learns_of_the_call_and_the_options() -> None:
    """A function may do the work itself."""
    seen: list[tuple[str, ScanOptions]] = []

    def scan(call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        seen.append((call.principal, options))
        return NUMBERS.to_reader()

    builder = CatalogBuilder().schema("demo").table("numbers", scan=scan, arrow_schema=NUMBERS.schema)
    built(builder).scan(Call("ann"), ScanOptions(limit=1))

    assert seen == [("ann", ScanOptions(limit=1))]


def test_own_table_is_taken_as_it_is() -> None:
    """Any object that is a table will do."""
    own = StaticTable("numbers", NUMBERS.schema, lambda _call, _options: NUMBERS.to_reader())

    assert built(CatalogBuilder().schema("demo").table("numbers", own)) is own


def test_own_table_goes_by_its_own_name() -> None:
    """A table that is listed under another name could not be found."""
    own = StaticTable("other", NUMBERS.schema, lambda _call, _options: NUMBERS.to_reader())

    with pytest.raises(ValueError, match="table 'numbers' was given a table with another name, 'other'"):
        CatalogBuilder().schema("demo").table("numbers", own)


def test_table_needs_a_schema() -> None:
    """The order of calls is checked."""
    with pytest.raises(ValueError, match=r"^call schema\(\) first, or give schema=$"):
        CatalogBuilder().table("numbers", NUMBERS)


@pytest.mark.parametrize("name", ["demo", "DEMO"])
def test_schema_names_differ_in_more_than_case(name: str) -> None:
    """DuckDB would not tell them apart."""
    with pytest.raises(ValueError, match=f"^schema '{name}' already exists$"):
        CatalogBuilder().schema("demo").schema(name)


@pytest.mark.parametrize("name", ["t", "T"])
def test_table_names_differ_in_more_than_case(name: str) -> None:
    """DuckDB would not tell them apart."""
    with pytest.raises(ValueError, match=f"^table '{name}' already exists$"):
        CatalogBuilder().schema("demo").table("t", NUMBERS).table(name, NUMBERS)


def test_names_are_not_empty() -> None:
    """Schemas and tables have names."""
    with pytest.raises(ValueError, match=r"^a schema needs a name$"):
        CatalogBuilder().schema("")
    with pytest.raises(ValueError, match=r"^a table needs a name$"):
        CatalogBuilder().schema("demo").table("", NUMBERS)


def test_table_has_exactly_one_source() -> None:
    """Neither none nor two."""
    builder = CatalogBuilder().schema("demo")

    with pytest.raises(ValueError, match="needs exactly one of data, reader and scan"):
        builder.table("t")
    with pytest.raises(ValueError, match="needs exactly one of data, reader and scan"):
        builder.table("t", NUMBERS, reader=NUMBERS.to_reader)


def test_function_needs_the_columns_beside_it() -> None:
    """The columns of a function are not known before it is called."""
    with pytest.raises(ValueError, match="needs arrow_schema beside its function"):
        CatalogBuilder().schema("demo").table("t", reader=NUMBERS.to_reader)


def test_built_catalog_does_not_change_with_its_builder() -> None:
    """The builder can go on and build another."""
    builder = CatalogBuilder().schema("demo")
    first = builder.build()
    builder.table("t", NUMBERS).schema("more")
    schema = first.schema(Call(), "demo")

    assert schema is not None
    assert list(schema.tables(Call())) == []
    assert first.schema(Call(), "more") is None
    assert len(builder.build().schemas(Call())) == 2


def test_static_scan_stops_when_cancelled() -> None:
    """Between batches the call is looked at."""
    table = built(CatalogBuilder().schema("demo").table("numbers", NUMBERS))
    call = Call()
    reader = table.scan(call, ScanOptions(batch_size=1))
    reader.read_next_batch()
    call.cancel()

    with pytest.raises(CancelledError):
        reader.read_next_batch()


def test_rows_in_memory_have_statistics() -> None:
    """A planner learns the range of a column, whatever the letter case of its name."""
    table = built(CatalogBuilder().schema("demo").add_table(NUMBERS, name="numbers"))
    assert isinstance(table, StatisticsTable)
    statistics = table.column_statistics(Call(), "N")

    assert (statistics.minimum.as_py(), statistics.maximum.as_py()) == (1, 3)
    assert (statistics.has_null, statistics.distinct_count) == (False, 3)
    with pytest.raises(NotFoundError, match=r"^column 'z' not found$"):
        table.column_statistics(Call(), "z")


def test_table_may_name_its_schema() -> None:
    """A schema that is given by name wins over the one before, and is made if it is new."""
    builder = CatalogBuilder().schema("demo").table("numbers", NUMBERS, schema="other")

    assert built(builder, "other").name == "numbers"
    assert builder.schema_names == ("demo", "other")
    assert [schema.name for schema in builder.build().schemas(Call())] == ["demo", "other"]
