from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, ScanOptions
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant
from sparkport.errors import PreconditionError
from sparkport.spark.engine import Engine
from sparkport.spark.external.catalog import SessionCatalog, catalog_names
from sparkport.spark.external.show_commands import Namespace, child_namespaces
from sparkport.spark.session.settings import SparkSettings


@pytest.fixture(scope="module")
def derby(spark: SparkSession) -> str:
    """Return the name of a catalog that Spark reads through JDBC, with two schemas."""
    name = "derby"
    spark.conf.set(
        f"spark.sql.catalog.{name}", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    )
    spark.conf.set(f"spark.sql.catalog.{name}.url", "jdbc:derby:memory:shop;create=true")
    spark.conf.set(f"spark.sql.catalog.{name}.driver", "org.apache.derby.jdbc.EmbeddedDriver")
    spark.sql("CREATE NAMESPACE derby.SHOP")
    spark.sql("CREATE NAMESPACE derby.`odd name-1`")
    spark.sql("CREATE TABLE derby.SHOP.ITEMS (id INT NOT NULL, label STRING, price DECIMAL(8, 2))")
    spark.sql("INSERT INTO derby.SHOP.ITEMS VALUES (1, 'pen', 1.50), (2, 'ink', 12.00), (3, NULL, NULL)")
    spark.sql("CREATE TABLE derby.`odd name-1`.`a b.c` (`e.f g` INT)")
    spark.sql("INSERT INTO derby.`odd name-1`.`a b.c` VALUES (7)")
    return name


def test_a_catalog_of_another_kind_is_read_by_its_name(derby: str, engine: Engine) -> None:
    """A database behind JDBC has schemas, tables and rows, and no views to ask for."""
    call = Call()
    catalog = SessionCatalog(derby, engine)
    schema = catalog.schema(call, "shop")
    assert schema is not None
    tables = schema.tables(call)
    cheap = Comparison(ComparisonOperator("<"), Column("price"), Constant(pa.scalar(5, pa.decimal128(8, 2))))
    rows = tables[0].scan(call, ScanOptions()).read_all()
    filtered = tables[0].scan(call, ScanOptions(columns=("label",), filter=cheap)).read_all()

    assert [table.name for table in tables] == ["ITEMS"]
    assert rows.schema.names == ["id", "label", "price"]
    assert sorted(rows["label"].drop_null().to_pylist()) == ["ink", "pen"]
    assert filtered.to_pylist() == [{"label": "pen"}]
    assert {"SHOP", "SYS"} <= {known.name for known in catalog.schemas(call)}
    assert catalog.catalog_version(call) == catalog.catalog_version(call)


def test_odd_names_are_quoted(derby: str, engine: Engine) -> None:
    """Spaces, dots and dashes in names of schemas, tables and columns mean nothing."""
    call = Call()
    schema = SessionCatalog(derby, engine).schema(call, "odd name-1")
    assert schema is not None
    table = schema.table(call, "a b.c")
    assert table is not None

    assert table.scan(call, ScanOptions(columns=("e.f g",))).read_all().to_pylist() == [{"e.f g": 7}]


def test_nested_namespaces_have_one_name_each() -> None:
    """A dot between parts and a dot in a part are told apart."""
    assert Namespace(("a", "b"), "", ()).name == "a.b"
    assert Namespace(("a.b",), "", ()).name == "`a.b`"
    assert Namespace(("a`b",), "", ()).name == "`a``b`"


def test_the_top_of_a_catalog_has_namespaces_of_one_part(spark: SparkSession, derby: str) -> None:
    """What Spark quotes is unquoted."""
    assert ("odd name-1",) in child_namespaces(spark, derby, ())
    assert child_namespaces(spark, derby, ("SHOP",)) == []


def test_a_catalog_that_does_not_load_says_so(spark: SparkSession, engine: Engine) -> None:
    """A class that is not there is told, with the name of the catalog."""
    spark.conf.set("spark.sql.catalog.hollow", "org.nowhere.Catalog")

    with pytest.raises(PreconditionError) as told:
        SessionCatalog("hollow", engine).schemas(Call())
    assert str(told.value) == (
        "catalog 'hollow' cannot be listed: Cannot find catalog plugin class for catalog 'hollow'"
    )


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (SparkSettings("w"), ()),
        (
            SparkSettings(
                "w",
                conf={
                    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
                    "spark.sql.catalog.lake.type": "hadoop",
                    "spark.sql.catalog.books": "a.Catalog",
                    "spark.sql.catalogImplementation": "in-memory",
                },
            ),
            ("books", "lake"),
        ),
        (SparkSettings("w", conf={"spark.sql.catalogImplementation": "hive"}), ("spark_catalog",)),
        (SparkSettings("w", conf={"spark.sql.catalog.spark_catalog": "a.Catalog"}), ("spark_catalog",)),
        (SparkSettings("w", remote="sc://there"), ("spark_catalog",)),
    ],
)
def test_configured_catalogs_are_known_by_name(settings: SparkSettings, names: tuple[str, ...]) -> None:
    """Options of a catalog are no catalogs; the session's own counts where it can hold more."""
    assert catalog_names(settings) == names
