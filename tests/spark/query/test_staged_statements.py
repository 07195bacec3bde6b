"""Transactions of statements in Spark SQL: by ADBC's driver without autocommit."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager
import grpc
import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, CreateTableOptions, SqlStatement, TransactionMode
from sparkport.errors import PreconditionError
from sparkport.protocol import flight_sql_pb2 as sql
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from tests.flight_client import Flight
from tests.sql_client import action, put, query

COLUMNS = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int64())])
KEYED = CreateTableOptions(primary_key=("id",), check_constraints=("n >= 0",))
_numbers = itertools.count()


@pytest.fixture
def name(schema: SparkSchema) -> str:
    """Make a table with three rows and return its name."""
    made = f"staged{next(_numbers)}"
    table = schema.create_table(Call(), made, COLUMNS, KEYED)
    table.insert(Call(), pa.table({"id": [1, 2, 3], "n": [10, 20, 30]}, COLUMNS).to_reader())
    return f"{schema.name}.{made}"


@pytest.fixture(scope="module")
def location(catalog: SparkCatalog) -> Iterator[str]:
    """Serve the catalog, and return where."""
    with sparkport.Server({"lake": catalog}, port=0, token="t", default_catalog="lake") as server:
        yield server.location.replace("grpc://", "grpc+tcp://")


@pytest.fixture
def own(location: str) -> Iterator[adbc.Connection]:
    """Connect without autocommit."""
    with _connect(location, autocommit=False) as made:
        yield made


@pytest.fixture
def flight(location: str) -> Flight:
    """Connect without a driver."""
    return Flight(location.replace("grpc+tcp", "grpc"), "t", airport=False)


@pytest.fixture
def other(location: str) -> Iterator[adbc.Connection]:
    """Connect with autocommit."""
    with _connect(location, autocommit=True) as made:
        yield made


def _connect(location: str, *, autocommit: bool) -> adbc.Connection:
    return adbc.connect(location, db_kwargs={"username": "u", "password": "t"}, autocommit=autocommit)


def _run(connection: adbc.Connection, text: str, parameters: tuple[object, ...] | None = None) -> int:
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return int(cursor.rowcount)


def _rows(connection: adbc.Connection, text: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


def _all(connection: adbc.Connection, name: str) -> list[tuple[object, ...]]:
    return _rows(connection, f"SELECT id, n FROM {name} ORDER BY id")


def test_every_kind_of_change_is_seen_by_its_transaction_alone(
    own: adbc.Connection, other: adbc.Connection, name: str
) -> None:
    """INSERT, UPDATE, DELETE and MERGE build on each other, and appear to others with the commit."""
    before = _all(other, name)
    _run(own, f"INSERT INTO {name} VALUES (4, 40), (5, 50)")
    _run(own, f"UPDATE {name} SET n = n + 1 WHERE id IN (1, 4)")
    _run(own, f"DELETE FROM {name} WHERE id = 2")
    _run(own, f"INSERT INTO {name} SELECT id + 10, n FROM {name} WHERE id >= 4")
    _run(
        own,
        f"MERGE INTO {name} t USING (SELECT id - 10 AS id, n FROM {name} WHERE id > 10"
        " UNION ALL SELECT 99, 9) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n + 1000"
        " WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE",
    )
    inside = _all(own, name)
    unseen = _all(other, name)
    own.commit()

    assert before == unseen == [(1, 10), (2, 20), (3, 30)]
    assert inside == [(1, 11), (4, 1041), (5, 1050), (14, 41), (15, 50), (99, 9)]
    assert _all(other, name) == inside


def test_truncate_and_overwrite_are_staged(own: adbc.Connection, other: adbc.Connection, name: str) -> None:
    """TRUNCATE and INSERT OVERWRITE can be rolled back, and committed."""
    _run(own, f"TRUNCATE TABLE {name}")
    emptied = _all(own, name)
    own.rollback()
    restored = _all(own, name)
    _run(own, f"INSERT INTO {name} VALUES (7, 70)")
    _run(own, f"INSERT OVERWRITE {name} SELECT id, n * 2 FROM {name} WHERE id >= 3")
    overwritten = _all(own, name)
    unseen = _all(other, name)
    own.commit()

    assert emptied == []
    assert restored == unseen == [(1, 10), (2, 20), (3, 30)]
    assert overwritten == _all(other, name) == [(3, 60), (7, 140)]


def test_all_tables_are_read_at_the_moment_of_the_first_statement(
    own: adbc.Connection, other: adbc.Connection, schema: SparkSchema, name: str
) -> None:
    """What others commit later is not seen, also in tables that the transaction has not read before."""
    second = f"{schema.name}.moment{next(_numbers)}"
    _run(other, f"CREATE TABLE {second} (id BIGINT, n BIGINT)")
    _run(other, f"INSERT INTO {second} VALUES (1, 1)")
    _all(own, name)
    _run(other, f"INSERT INTO {second} VALUES (2, 2)")
    _run(other, f"UPDATE {name} SET n = 0")
    joined = f"SELECT a.n, b.n AS m FROM {name} a JOIN {second} b ON a.id = b.id"

    assert _rows(own, joined) == [(10, 1)]
    assert _rows(own, f"SELECT count(*), min(id), max(n) FROM {second}") == [(1, 1, 1)]
    own.rollback()
    assert _rows(own, joined + " ORDER BY a.id") == [(0, 1), (0, 2)]


def test_parameters_take_part(own: adbc.Connection, other: adbc.Connection, name: str) -> None:
    """Prepared statements read and write what the transaction sees."""
    _run(own, f"INSERT INTO {name} VALUES (?, ?)", (4, 40))
    _run(own, f"UPDATE {name} SET n = n + ? WHERE id >= ?", (5, 3))
    with own.cursor() as cursor:
        cursor.execute(f"SELECT n FROM {name} WHERE id > ? ORDER BY id", (2,))
        seen = [value for (value,) in cursor.fetchall()]
    unseen = _all(other, name)
    own.commit()

    assert seen == [35, 45]
    assert unseen == [(1, 10), (2, 20), (3, 30)]
    assert _all(other, name)[2:] == [(3, 35), (4, 45)]


def test_ingest_takes_part(flight: Flight, other: adbc.Connection, name: str) -> None:
    """Rows that are ingested within a transaction are staged, unless a table had to be made for them."""
    (begun,) = action(flight, "BeginTransaction", sql.ActionBeginTransactionRequest())
    transaction = sql.ActionBeginTransactionResult.FromString(begun).transaction_id
    schema, table = name.split(".")
    options = sql.CommandStatementIngest.TableDefinitionOptions
    rows = pa.table({"id": [8, 9], "n": [80, 90]})
    for missing, present in (
        (options.TABLE_NOT_EXIST_OPTION_FAIL, options.TABLE_EXISTS_OPTION_APPEND),
        (options.TABLE_NOT_EXIST_OPTION_CREATE, options.TABLE_EXISTS_OPTION_REPLACE),
    ):
        command = sql.CommandStatementIngest(
            table_definition_options=options(if_not_exist=missing, if_exists=present),
            table=table,
            schema=schema,
            transaction_id=transaction,
        )
        if present == options.TABLE_EXISTS_OPTION_APPEND:
            put(flight, command, rows)
        else:
            with pytest.raises(grpc.RpcError, match="CREATE TABLE is not possible in a transaction"):
                put(flight, command, rows)
    inside = query(flight, f"SELECT id FROM {name} WHERE n > 40 ORDER BY id", transaction_id=transaction)
    unseen = _all(other, name)
    end = sql.ActionEndTransactionRequest
    action(flight, "EndTransaction", end(transaction_id=transaction, action=end.END_TRANSACTION_COMMIT))

    assert inside == [{"id": 8}, {"id": 9}]
    assert unseen == [(1, 10), (2, 20), (3, 30)]
    assert _all(other, name)[3:] == [(8, 80), (9, 90)]


def test_a_statement_that_fails_leaves_the_transaction_as_it_was(
    own: adbc.Connection, other: adbc.Connection, name: str
) -> None:
    """Broken constraints, also of a MERGE that has changed rows before, leave what was staged."""
    _run(own, f"UPDATE {name} SET n = 11 WHERE id = 1")
    merge = (
        f"MERGE INTO {name} t USING (SELECT 1 AS id, 7 AS k UNION ALL SELECT 50, 3) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET n = 5 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.k, 1)"
    )
    broken = [
        merge,
        f"INSERT INTO {name} VALUES (3, 1)",
        f"UPDATE {name} SET n = -1",
        f"SELECT nothing FROM {name}",
    ]
    for text in broken:
        with pytest.raises(adbc_driver_manager.Error):
            _run(own, text)
    inside = _all(own, name)
    own.commit()

    assert inside == _all(other, name) == [(1, 11), (2, 20), (3, 30)]


def test_definitions_are_refused(own: adbc.Connection, other: adbc.Connection, name: str) -> None:
    """DDL and maintenance are FAILED_PRECONDITION, and the transaction goes on."""
    _run(own, f"DELETE FROM {name} WHERE id = 1")
    schema, _ = name.split(".")
    refused = [
        f"CREATE TABLE {schema}.made (a INT)",
        f"CREATE TABLE {schema}.made AS SELECT 1 AS a",
        f"DROP TABLE {name}",
        f"ALTER TABLE {name} ADD COLUMN x INT",
        f"OPTIMIZE {name}",
        "CREATE SCHEMA made",
    ]
    for text in refused:
        with pytest.raises(adbc_driver_manager.Error, match="is not possible in a transaction"):
            _run(own, text)
    own.commit()

    assert _all(other, name) == [(2, 20), (3, 30)]
    assert _rows(other, f"SHOW TABLES IN {schema} LIKE 'made'") == []


def test_the_first_to_commit_wins_by_row(
    location: str, own: adbc.Connection, other: adbc.Connection, name: str
) -> None:
    """Changes of different rows both land; a change of the same row is ABORTED with the table's name."""
    with _connect(location, autocommit=False) as third:
        _run(own, f"UPDATE {name} SET n = n + 1 WHERE id = 1")
        _run(third, f"UPDATE {name} SET n = n + 1 WHERE id = 2")
        own.commit()
        third.commit()
        _run(own, f"UPDATE {name} SET n = n + 1 WHERE id = 3")
        _run(third, f"UPDATE {name} SET n = n + 5 WHERE id = 3")
        own.commit()
        with pytest.raises(adbc_driver_manager.Error, match=f"(?i)conflict on table '{name.split('.')[1]}'"):
            third.commit()
    with _connect(location, autocommit=False) as third:  # the driver has no transaction any more
        _run(third, f"INSERT INTO {name} VALUES (4, 4)")
        _run(own, f"INSERT INTO {name} VALUES (4, 4)")
        own.commit()
        with pytest.raises(adbc_driver_manager.Error, match="PRIMARY KEY"):
            third.commit()

    assert _all(other, name) == [(1, 11), (2, 21), (3, 31), (4, 4)]


def test_a_named_version_is_one_of_the_table(own: adbc.Connection, name: str) -> None:
    """VERSION AS OF reads what was committed as that version; not mixed with what the transaction sees."""
    _run(own, f"DELETE FROM {name}")

    assert _rows(own, f"SELECT count(*) FROM {name} VERSION AS OF 1") == [(3,)]
    assert _rows(own, f"SELECT count(*) FROM {name} VERSION AS OF 0") == [(0,)]
    with pytest.raises(adbc_driver_manager.Error, match="use two queries"):
        _rows(own, f"SELECT count(*) FROM {name} VERSION AS OF 1 JOIN {name} USING (id)")


def test_statements_of_one_transaction_run_one_after_the_other(catalog: SparkCatalog, name: str) -> None:
    """Two UPDATEs at once of one transaction build on each other: none is lost."""
    transaction = catalog.transactions.begin_transaction(Call(), TransactionMode.STAGED)
    inside = Call(transaction_id=transaction)
    errors: list[Exception] = []

    def add() -> None:
        try:
            catalog.update_sql(inside, SqlStatement(f"UPDATE {name} SET n = n + 1", "lake"), None)
        except Exception as error:  # noqa: BLE001  (asserted below)
            errors.append(error)

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    catalog.transactions.commit_transaction(Call(), transaction)

    assert errors == []
    with catalog.query_sql(Call(), SqlStatement(f"SELECT sum(n) AS s FROM {name}", "lake"), None) as rows:
        assert rows.read_all().to_pylist() == [{"s": 69}]


def test_ended_transactions_leave_no_files(catalog: SparkCatalog, name: str) -> None:
    """What queries and statements of a transaction have written to the staging area goes with it."""
    staging = Path(catalog.engine.staging)
    before = sorted(staging.iterdir()) if staging.exists() else []
    for commits in (True, False):
        transaction = catalog.transactions.begin_transaction(Call(), TransactionMode.STAGED)
        inside = Call(transaction_id=transaction)
        catalog.update_sql(inside, SqlStatement(f"UPDATE {name} SET n = n + 1", "lake"), None)
        catalog.query_sql(inside, SqlStatement(f"SELECT * FROM {name}", "lake"), None).read_all()
        held = [path for path in staging.iterdir() if path not in before and path.is_dir()]
        assert len(held) == 2
        if commits:
            catalog.transactions.commit_transaction(Call(), transaction)
        else:
            catalog.transactions.rollback_transaction(Call(), transaction)
        with pytest.raises(PreconditionError, match="not active"):
            catalog.query_sql(inside, SqlStatement(f"SELECT * FROM {name}", "lake"), None)

        assert [path for path in staging.iterdir() if path not in before and path.is_dir()] == []
