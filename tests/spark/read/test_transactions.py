"""One transaction sees one moment of all tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, CreateTableOptions, DropTableOptions, ScanOptions, TransactionState
from sparkport.errors import ConflictError, TransactionNotActiveError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.delta_jvm import log_cache
from sparkport.spark.engine import Engine
from sparkport.spark.session.host import SparkHost
from tests.spark.read.lake import Lake, Way, at_version, ids


def drop(lake: Lake, name: str) -> None:
    """Drop a table, and let Spark know."""
    SparkSchema(lake.schema, lake.catalog.tables).drop_table(Call(), name, DropTableOptions())
    log_cache.forget(str(lake.root(name)), lake.spark)


def test_all_tables_are_as_at_the_first_use(lake: Lake) -> None:
    """The first read fixes every table, also those that are read for the first time later."""
    for name in ("left", "right"):
        lake.run(name, "CREATE TABLE {t} (id INT) USING delta", "INSERT INTO {t} VALUES (1)")
    transactions = lake.catalog.transactions
    unused = Call(transaction_id=transactions.begin_transaction(Call()))
    call = Call(transaction_id=transactions.begin_transaction(Call()))
    first = ids(lake.read("left", call=call))
    lake.run("left", "INSERT INTO {t} VALUES (2)")
    lake.run("right", "INSERT INTO {t} VALUES (2)", "ALTER TABLE {t} ADD COLUMN (later INT)")
    lake.run("made", "CREATE TABLE {t} (id INT) USING delta", "INSERT INTO {t} VALUES (7)")
    right = lake.table("right")

    assert first == [1]
    assert ids(lake.read("left", call=call)) == [1]
    assert lake.read("right", call=call).to_pylist() == [{"id": 1}]
    assert right.snapshot(call, None).row_count == 1
    assert right.column_statistics(call, "id").maximum.as_py() == 1
    assert sorted(ids(lake.read("right", ScanOptions(time_point=at_version(2)), call))) == [1, 2]
    assert ids(lake.read("made", call=call)) == [7]
    assert sorted(ids(lake.read("left", call=unused))) == [1, 2]
    assert sorted(ids(lake.read("left"))) == [1, 2]

    transactions.commit_transaction(Call(), call.transaction_id or "")
    with pytest.raises(TransactionNotActiveError):
        lake.read("left", call=call)


@pytest.mark.parametrize("reads_first", [True, False])
def test_another_table_of_the_name_is_another_table(lake: Lake, *, reads_first: bool) -> None:
    """One that was dropped and made again since is read as it is, and not at the version of the old one."""
    make = "CREATE TABLE {t} (id INT) USING delta"
    again, other = f"again_{reads_first}", f"other_{reads_first}"
    lake.run(again, make, "INSERT INTO {t} VALUES (1)", "INSERT INTO {t} VALUES (2)")
    transactions = lake.catalog.transactions
    call = Call(transaction_id=transactions.begin_transaction(Call()))
    lake.run(other, make)
    lake.read(again if reads_first else other, call=call)
    drop(lake, again)
    lake.run(again, make)
    as_made = ids(lake.read(again, call=call))
    for number in (7, 8, 9):
        lake.run(again, f"INSERT INTO {{t}} VALUES ({number})")

    assert as_made == []
    assert ids(lake.read(again, call=call)) == []
    assert sorted(ids(lake.read(again))) == [7, 8, 9]


def test_longer_history_of_another_table_is_not_taken_for_the_old_one(lake: Lake) -> None:
    """Its commit of the same number was made after the transaction began to read."""
    make = "CREATE TABLE {t} (id INT) USING delta"
    lake.run("longer", make, "INSERT INTO {t} VALUES (1)")
    lake.run("used", make)
    transactions = lake.catalog.transactions
    call = Call(transaction_id=transactions.begin_transaction(Call()))
    lake.read("used", call=call)
    drop(lake, "longer")
    lake.run("longer", make, *(f"INSERT INTO {{t}} VALUES ({number})" for number in (7, 8, 9)))

    assert sorted(ids(lake.read("longer", call=call))) == [7, 8, 9]


def test_an_idle_transaction_expires(lake: Lake, spark_host: SparkHost) -> None:
    """A transaction that nobody uses ends, and the catalog's version says that something changed."""
    engine = Engine(spark_host, transaction_idle_seconds=0.0)
    catalog = SparkCatalog(engine)
    lake.run("idle", "CREATE TABLE {t} (id INT) USING delta")
    before = catalog.catalog_version(Call()).version
    transaction = catalog.transactions.begin_transaction(Call())
    call = Call(transaction_id=transaction)
    table = lake.with_engine(catalog.engine).table("idle")

    with pytest.raises(TransactionNotActiveError, match=r"is not active .state: aborted."):
        table.snapshot(call, None)
    assert catalog.transactions.transaction_status(Call(), transaction) is TransactionState.ABORTED
    assert catalog.catalog_version(Call()).version > before
    engine.jobs.close()


def test_own_writes_between_those_of_others_are_not_read_by_spark_sql(lake: Lake) -> None:
    """Spark SQL reads whole versions: statements of such a transaction are ABORTED, and change nothing."""
    columns = pa.schema({"id": pa.int64()})
    SparkSchema(lake.schema, lake.catalogs[Way.SQL].tables).create_table(
        Call(), "mixed", columns, CreateTableOptions()
    )
    table = lake.table("mixed", way=Way.SQL)
    table.insert(Call(), pa.table({"id": [1, 2]}, columns).to_reader())
    call = Call(transaction_id=lake.catalogs[Way.SQL].transactions.begin_transaction(Call()))
    rows = lake.read("mixed", call=call, way=Way.SQL)
    table.insert(call, pa.table({"id": [3]}, columns).to_reader())
    alone = ids(lake.read("mixed", call=call, way=Way.SQL))
    table.insert(Call(), pa.table({"id": [4]}, columns).to_reader())
    table.insert(call, pa.table({"id": [5]}, columns).to_reader())
    row_ids = pa.array(rows["rowid"].to_pylist()[:1], pa.int64())

    assert sorted(alone) == [1, 2, 3]
    with pytest.raises(ConflictError, match="begin a new transaction"):
        lake.read("mixed", call=call, way=Way.SQL)
    with pytest.raises(ConflictError, match="begin a new transaction"):
        table.delete(call, row_ids)
    with pytest.raises(ConflictError, match="begin a new transaction"):
        table.update(call, row_ids, pa.table({"id": [9]}, columns).to_reader())
    assert sorted(ids(lake.read("mixed", way=Way.SQL))) == [1, 2, 3, 4, 5]
