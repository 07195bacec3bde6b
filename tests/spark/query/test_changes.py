"""Changes of rows in Spark SQL: through the tables' own statements, by ADBC's driver."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager
import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, CreateTableOptions, SqlStatement
from sparkport.errors import (
    ConflictError,
    ConstraintViolationError,
    InvalidRequestError,
    NotFoundError,
    NotImplementedByServerError,
    PermissionDeniedError,
)
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.statements import change_runs, several
from sparkport.spark.table import DeltaTable

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("text", pa.string(), metadata={"default": "'none'"}),
        pa.field("small", pa.uint16()),
    ]
)
OPTIONS = CreateTableOptions(
    primary_key=("id",), check_constraints=("price >= 0",), not_null_constraints=(0,)
)
NO_OPTIONS = CreateTableOptions()
Run = Callable[[str], int]
_numbers = itertools.count()


@pytest.fixture
def name(schema: SparkSchema) -> str:
    """Make a table with three rows and constraints, and return its name."""
    made = f"changed{next(_numbers)}"
    table = schema.create_table(Call(), made, COLUMNS, OPTIONS)
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "price": pa.array([Decimal("1.50"), Decimal("2.50"), None], pa.decimal128(9, 2)),
            "text": ["a", "b", "c"],
            "small": pa.array([1, 2, 3], pa.uint16()),
        },
        COLUMNS,
    )
    table.insert(Call(), rows.to_reader())
    return f"{schema.name}.{made}"


@pytest.fixture
def run(catalog: SparkCatalog) -> Run:
    """Return what runs a change."""

    def change(sql: str) -> int:
        return catalog.update_sql(Call(), SqlStatement(sql, "lake"), None)

    return change


@pytest.fixture(scope="module")
def connection(catalog: SparkCatalog) -> Iterator[adbc.Connection]:
    """Connect to a server of the catalog."""
    with sparkport.Server({"lake": catalog}, port=0, token="t", default_catalog="lake") as server:
        location = server.location.replace("grpc://", "grpc+tcp://")
        with adbc.connect(location, db_kwargs={"username": "u", "password": "t"}, autocommit=True) as made:
            yield made


def _rows(
    catalog: SparkCatalog, name: str, columns: str = "id, price, text, small"
) -> list[tuple[object, ...]]:
    statement = SqlStatement(f"SELECT {columns} FROM {name} ORDER BY id", "lake")
    with catalog.query_sql(Call(), statement, None) as reader:
        table = reader.read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_insert_takes_values_queries_and_names(catalog: SparkCatalog, run: Run, name: str) -> None:
    """INSERT casts to the table's types, fills in defaults and nulls, and counts its rows."""
    counts = [
        run(f"INSERT INTO {name} VALUES (4, 4, 'd', 4), (5, 5.255, 'e', NULL)"),
        run(f"INSERT INTO {name} (small, id) SELECT small, id + 5 FROM {name} WHERE id = 1"),
        run(f"INSERT INTO {name} BY NAME SELECT 'g' AS text, 7 AS id"),
        run(f"INSERT INTO TABLE {name} (id) SELECT id FROM {name} WHERE id > 100"),
    ]

    assert counts == [2, 1, 1, 0]
    assert _rows(catalog, name)[3:] == [
        (4, Decimal("4.00"), "d", 4),
        (5, Decimal("5.26"), "e", None),
        (6, None, "none", 1),
        (7, None, "g", None),
    ]


def test_update_and_delete_count_their_rows(catalog: SparkCatalog, run: Run, name: str) -> None:
    """UPDATE sees the old row in all of its expressions; DELETE removes what its condition finds."""
    counts = [
        run(f"UPDATE {name} AS t SET price = t.price * 2, small = small + id, text = DEFAULT WHERE id < 3"),
        run(f"UPDATE {name} SET text = CASE WHEN price IS NULL THEN 'free, WHERE' ELSE text END"),
        run(f"DELETE FROM {name} t WHERE EXISTS (SELECT 1 FROM {name} o WHERE o.id = t.id AND o.id = 2)"),
        run(f"DELETE FROM {name} WHERE id > 10"),
    ]

    assert counts == [2, 3, 1, 0]
    assert _rows(catalog, name) == [(1, Decimal("3.00"), "none", 2), (3, None, "free, WHERE", 3)]
    assert run(f"TRUNCATE TABLE {name}") == 2
    assert _rows(catalog, name) == []


def test_constraints_hold_and_nothing_changes(catalog: SparkCatalog, run: Run, name: str) -> None:
    """A change that breaks a constraint, or whose value does not fit, changes no row."""
    before = _rows(catalog, name)
    broken = {
        f"INSERT INTO {name} VALUES (9, 1, 'x', 1), (1, 1, 'x', 1)": ConstraintViolationError,
        f"UPDATE {name} SET price = -1": ConstraintViolationError,
        f"UPDATE {name} SET id = 1": ConstraintViolationError,
        f"UPDATE {name} SET id = NULL WHERE id = 3": ConstraintViolationError,
        f"INSERT INTO {name} (id) VALUES ('x')": InvalidRequestError,
        f"UPDATE {name} SET small = 70000": InvalidRequestError,
        f"UPDATE {name} SET price = 1 / (id - 1)": InvalidRequestError,
    }
    for sql, error in broken.items():
        with pytest.raises(error):
            run(sql)

    assert _rows(catalog, name) == before


def test_merge_of_one_kind_is_one_commit(catalog: SparkCatalog, run: Run, name: str) -> None:
    """MERGE updates, deletes or inserts; the first clause whose condition holds counts."""
    counts = [
        run(
            f"MERGE INTO {name} AS t USING (SELECT 1 AS id, 'x' AS text UNION ALL SELECT 2, 'y') AS s"
            " ON t.id = s.id WHEN MATCHED AND s.text = CASE WHEN true THEN 'x' END"
            " THEN UPDATE SET t.text = s.text"
            " WHEN MATCHED THEN UPDATE SET price = 9"
        ),
        run(
            f"MERGE INTO {name} USING (SELECT * FROM VALUES (3, 'c'), (4, 'd') v(id, text)) s"
            f" ON {name}.id = s.id"
            " WHEN NOT MATCHED AND s.id < 9 THEN INSERT (id, text) VALUES (s.id, upper(s.text))"
        ),
        run(
            f"MERGE INTO {name} t USING (SELECT 1 AS id) s ON t.id = s.id"
            " WHEN NOT MATCHED BY SOURCE AND t.id > 3 THEN DELETE"
        ),
        run(f"MERGE INTO {name} t USING {name} s ON t.id = s.id WHEN MATCHED AND s.id = 3 THEN DELETE"),
    ]

    assert counts == [2, 1, 1, 1]
    assert _rows(catalog, name, "id, price, text") == [
        (1, Decimal("1.50"), "x"),
        (2, Decimal("9.00"), "b"),
    ]


def test_merge_star_sets_all_columns(catalog: SparkCatalog, run: Run, name: str) -> None:
    """UPDATE SET * and INSERT * take the columns of the source by their names, with their exact types."""
    run(
        f"MERGE INTO {name} t USING (SELECT id, price, 'star' AS text, small FROM {name} WHERE id = 2) s"
        " ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )

    assert _rows(catalog, name)[1] == (2, Decimal("2.50"), "star", 2)


def test_merge_never_changes_a_row_twice(catalog: SparkCatalog, run: Run, name: str) -> None:
    """Two rows of the source that match one row are an error, and nothing changes."""
    before = _rows(catalog, name)
    with pytest.raises(InvalidRequestError, match="more than once"):
        run(
            f"MERGE INTO {name} t USING (SELECT * FROM VALUES (1, 'x'), (1, 'y') v(id, text)) s"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET text = s.text"
        )

    assert _rows(catalog, name) == before


def _version(catalog: SparkCatalog, name: str) -> int:
    """Return the newest version of a table."""
    schema, _, table = name.partition(".")
    found = catalog.schema(Call(), schema)
    assert found is not None
    delta = found.table(Call(), table)
    assert isinstance(delta, DeltaTable)
    return delta.versions.newest().version


def test_merge_of_several_kinds_is_one_commit(catalog: SparkCatalog, run: Run, name: str) -> None:
    """Rows that match are updated, others inserted, and those without a source deleted, all at once."""
    before = _version(catalog, name)
    changed = run(
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES (1, 'one'), (7, 'seven') v(id, text)) s"
        " ON t.id = s.id WHEN MATCHED THEN UPDATE SET text = s.text"
        " WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, s.text)"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE"
    )

    assert changed == 3
    assert _rows(catalog, name, "id, text") == [(1, "one"), (2, "b"), (7, "seven")]
    assert _version(catalog, name) == before + 1


def test_insert_overwrite_is_one_commit(catalog: SparkCatalog, run: Run, name: str) -> None:
    """All rows are replaced, also by those of the table itself; the version before still has the old ones."""
    before = _version(catalog, name)
    run(f"INSERT OVERWRITE TABLE {name} SELECT id + 1, price, upper(text), small FROM {name} WHERE id > 1")

    assert _rows(catalog, name, "id, text") == [(3, "B"), (4, "C")]
    assert _version(catalog, name) == before + 1
    assert _rows(catalog, f"{name} VERSION AS OF {before}", "id, text") == [(1, "a"), (2, "b"), (3, "c")]


def test_merge_that_fails_in_its_last_part_changes_nothing(
    catalog: SparkCatalog, run: Run, name: str
) -> None:
    """A CHECK that an inserted row breaks also takes back the updates of the same MERGE."""
    before = _rows(catalog, name)
    with pytest.raises(ConstraintViolationError):
        run(
            f"MERGE INTO {name} t USING (SELECT * FROM VALUES (1, 1), (9, -1) v(id, price)) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET price = s.price"
            " WHEN NOT MATCHED THEN INSERT (id, price) VALUES (s.id, s.price)"
        )

    assert _rows(catalog, name) == before


def test_merge_meets_a_row_that_another_has_added(
    catalog: SparkCatalog, run: Run, schema: SparkSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that appears after a MERGE has read the table is updated by it, not inserted a second time."""
    made = f"merged{next(_numbers)}"
    schema.create_table(Call(), made, pa.schema([("id", pa.int64()), ("text", pa.string())]), NO_OPTIONS)
    name, lower = f"{schema.name}.{made}", change_runs.lower

    def late(*arguments: object, is_run: bool) -> object:
        lowered = lower(*arguments, is_run=is_run)  # type: ignore[arg-type]
        monkeypatch.undo()
        assert run(f"INSERT INTO {name} VALUES (1, 'theirs')") == 1
        return lowered

    monkeypatch.setattr(several, "lower", late)
    changed = run(
        f"MERGE INTO {name} t USING (SELECT 1 AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET text = concat(t.text, ' and ours')"
        " WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, 'ours')"
    )

    assert changed == 1
    assert _rows(catalog, name, "id, text") == [(1, "theirs and ours")]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        (
            (
                "MERGE INTO {0} t USING {0} s ON t.id = s.id WHEN MATCHED AND t.id = 1 THEN DELETE"
                " WHEN MATCHED THEN UPDATE SET text = 'x'"
            ),
            NotImplementedByServerError,
        ),
        ("INSERT OVERWRITE {0} SELECT 9, -1, 'a', 1", ConstraintViolationError),
        ("INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT 1", NotImplementedByServerError),
        ("INSERT INTO {0} REPLACE WHERE id = 1 SELECT * FROM {0}", NotImplementedByServerError),
        ("INSERT INTO {0} (id, nope) VALUES (1, 2)", NotFoundError),
        ("INSERT INTO {0} (id, ID) VALUES (1, 2)", InvalidRequestError),
        ("INSERT INTO {0} VALUES (1)", InvalidRequestError),
        ("INSERT INTO nowhere.t VALUES (1)", NotFoundError),
        ("UPDATE {0} SET nope = 1", NotFoundError),
        ("UPDATE {0} SET id = 1 WHERE", InvalidRequestError),
        ("DELETE FROM {0}; DELETE FROM {0}", InvalidRequestError),
        ("INSERT INTO {0} (text) SELECT reflect('java.lang.System', 'getenv')", PermissionDeniedError),
        ("UPDATE {0} SET text = (SELECT value FROM text.`/etc/passwd`)", NotFoundError),
        ("DELETE FROM delta.`/tmp/x`", NotFoundError),
    ],
)
def test_what_is_not_offered_changes_nothing(
    catalog: SparkCatalog, run: Run, name: str, sql: str, error: type[Exception]
) -> None:
    """A change that cannot be lowered, or names what it must not, is refused with a reason."""
    before = _rows(catalog, name)
    with pytest.raises(error):
        run(sql.format(name))

    assert _rows(catalog, name) == before


def test_a_row_that_another_has_changed_is_a_conflict(
    catalog: SparkCatalog, run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that somebody changes after the statement has read it is not overwritten."""
    lower = change_runs.lower

    def late(*arguments: object, is_run: bool) -> object:
        lowered = lower(*arguments, is_run=is_run)  # type: ignore[arg-type]
        if is_run:
            monkeypatch.undo()
            assert run(f"UPDATE {name} SET text = 'theirs' WHERE id = 1") == 1
        return lowered

    monkeypatch.setattr(change_runs, "lower", late)
    with pytest.raises(ConflictError):
        run(f"UPDATE {name} SET text = 'ours'")

    assert [row[2] for row in _rows(catalog, name)] == ["theirs", "b", "c"]


def test_adbc_runs_changes_once_and_binds_many_rows(connection: adbc.Connection, name: str) -> None:
    """A change that is sent as a query runs once; many rows of parameters are one statement."""
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {name} (id) VALUES (10)")
        cursor.executemany(
            f"INSERT INTO {name} VALUES (?, ?, ?, ?)",
            [(11, Decimal(1), "x?", 1), (12, None, None, 2)],
        )
        cursor.executemany(f"UPDATE {name} SET text = ? WHERE id = ?", [("eleven", 11), ("twelve", 12)])
        cursor.executemany(f"DELETE FROM {name} WHERE id = ?", [(1,), (2,), (3,)])
        cursor.execute(f"SELECT id, text FROM {name} ORDER BY id")
        rows = cursor.fetchall()
        with pytest.raises(adbc_driver_manager.Error, match=r"(?i)primary key|unique"):
            cursor.executemany(f"INSERT INTO {name} (id) VALUES (?)", [(20,), (11,)])
        cursor.execute(f"SELECT count(*) AS n FROM {name}")
        count = cursor.fetchall()

    assert rows == [(10, "none"), (11, "eleven"), (12, "twelve")]
    assert count == [(3,)]


def test_parameters_of_a_merge_are_bound_where_they_stand(catalog: SparkCatalog, run: Run, name: str) -> None:
    """Parameters of a MERGE keep their places, whatever its query looks like; it takes one row of them."""
    sql = (
        f"MERGE INTO {name} t USING (SELECT ? AS id) s ON t.id = s.id"
        " WHEN MATCHED AND t.text = ? THEN UPDATE SET text = ?"
    )
    statement = SqlStatement(sql, "lake")
    parameters = pa.record_batch({"a": [2], "b": ["b"], "c": ["bound"]})
    described = catalog.describe_sql(Call(), statement, None)
    with pytest.raises(InvalidRequestError):
        catalog.update_sql(Call(), statement, pa.concat_batches([parameters, parameters]))
    with pytest.raises(InvalidRequestError):
        catalog.update_sql(Call(), statement, None)

    assert len(described.parameters) == 3
    assert catalog.update_sql(Call(), statement, parameters) == 1
    assert [row[2] for row in _rows(catalog, name)] == ["a", "bound", "c"]
    with pytest.raises(InvalidRequestError):
        run(f"UPDATE {name} SET text = ?")


def test_parameters_reach_queries_by_name(catalog: SparkCatalog, name: str) -> None:
    """INSERT BY NAME takes parameters; the last values of a row that is changed twice count."""
    insert = SqlStatement(f"INSERT INTO {name} BY NAME SELECT ? AS text, CAST(? AS INT) AS id", "lake")
    rows = pa.record_batch({"text": ["x", "y"], "id": [8, 9]})
    update = SqlStatement(
        f"UPDATE {name} SET text = ? WHERE id IN (SELECT a.id FROM {name} a JOIN {name} b ON a.id = b.id)"
        " AND id = ?",
        "lake",
    )

    assert catalog.update_sql(Call(), insert, rows) == 2
    assert catalog.update_sql(Call(), update, pa.record_batch({"t": ["1st", "2nd"], "id": [9, 9]})) == 1
    assert [row[2] for row in _rows(catalog, name)][3:] == ["x", "2nd"]


def test_parameters_have_the_types_of_their_columns(catalog: SparkCatalog, name: str) -> None:
    """A driver is told the type that each parameter is stored as or compared with; there is no result set."""
    described = [
        catalog.describe_sql(Call(), SqlStatement(sql, "lake"), None)
        for sql in (
            f"INSERT INTO {name} (price, small) VALUES (?, ?)",
            f"UPDATE {name} SET price = ? WHERE id = ?",
        )
    ]

    assert [description.arrow_schema for description in described] == [None, None]
    assert described[0].parameters.types == [pa.decimal128(9, 2), pa.uint16()]
    assert described[1].parameters.types == [pa.decimal128(9, 2), pa.int64()]
