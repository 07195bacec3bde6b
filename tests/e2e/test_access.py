"""Grants, row filters and masks over the wire: in every dialect, and against those who try to get around."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import sparkport
from sparkport.app.authentication.tokens import TokenFile
from sparkport.catalog import Call, CreateSchemaOptions, CreateTableOptions, DynamicSchema
from sparkport.errors import ConfigError, NotFoundError, PermissionDeniedError
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_sql_pb2 as sql
from tests.behaviour.engine import ids, insert, rows
from tests.flight_client import Flight, path_descriptor, refusal
from tests.json_client import INT, JsonClient
from tests.sql_client import prepare, query, run, update

T = path_descriptor("db1", "s", "t")
_COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
_NEW = pa.table({"id": pa.array([9], pa.int64()), "name": ["new"]})
_SETS = ["", "select", "insert", "select update", "select delete", "create", "alter", "drop", "admin"]


class _World:
    """A server with an access file, a table, and tokens for its callers."""

    def __init__(self, folder: Path) -> None:
        self.catalog = MemoryCatalog()
        self.file = folder / "access.toml"
        self.tokens = TokenFile(folder / "tokens.json")
        self.file.write_text("[roles]\n")
        self.tokens.create("boss", None, ["admin"])
        schema = self.catalog.create_schema(Call(), "s", CreateSchemaOptions())
        for name in ("t", "hidden"):
            insert(self._make(schema, name), [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}])

    def _make(self, schema: DynamicSchema, name: str) -> Any:
        return schema.create_table(Call(), name, _COLUMNS, CreateTableOptions())

    def table(self, name: str = "t") -> Any:
        schema = self.catalog.schema(Call(), "s")
        assert schema is not None
        return schema.table(Call(), name)


@pytest.fixture
def world(tmp_path: Path) -> _World:
    """Return what is served."""
    return _World(tmp_path)


@pytest.fixture
def server(world: _World) -> Iterator[sparkport.Server]:
    """Serve it as `db1`."""
    with sparkport.Server(
        {"db1": world.catalog, "other": MemoryCatalog()},
        port=0,
        tokens=world.tokens.path,
        access=world.file,
        default_catalog="db1",
        grace_seconds=0.2,
    ) as running:
        yield running


@pytest.fixture
def ada(world: _World) -> str:
    """Return the token of a caller without roles."""
    return world.tokens.create("ada", None)


def _allow(world: _World, privileges: str, thing: str = 'tables = "db1.s.t*"', more: str = "") -> None:
    allowed = json.dumps(privileges.split())
    world.file.write_text(f'[roles]\n[[grant]]\nto = "*"\nallow = {allowed}\n{thing}\n{more}')


# How each dialect tries each operation, and what it needs.
_JSON: dict[str, tuple[str, Callable[[JsonClient, int], object]]] = {
    "describe": ("browse", lambda c, _: c.columns("s", "t")),
    "scan": ("select", lambda c, _: c.rows("s", "t")),
    "insert": ("insert", lambda c, _: c.insert("s", "t", _NEW)),
    "update": ("update", lambda c, row: c.update("s", "t", [row], _NEW)),
    "delete": ("delete", lambda c, row: c.delete("s", "t", [row])),
    "create": ("create", lambda c, _: c.create_table("s", "t3", INT)),
    "alter": (
        "alter",
        lambda c, _: c.json(
            "AlterTableAddColumn", schema_name="s", table_name="t", column={"name": "x", "type": "int64"}
        ),
    ),
    "drop": ("drop", lambda c, _: c.json("DropTable", schema_name="s", table_name="t")),
}
_AIRPORT: dict[str, tuple[str, Callable[[Flight, int], object]]] = {
    "describe": (
        "browse",
        lambda c, _: c.action("flight_info", {"descriptor": T, "at_unit": "", "at_value": ""}),
    ),
    "scan": ("select", lambda c, _: c.read(T, 2)),
    "statistics": (
        "select",
        lambda c, _: c.action(
            "column_statistics", {"flight_descriptor": T, "column_name": "id", "type": "BIGINT"}
        ),
    ),
    "insert": ("insert", lambda c, _: c.insert(T, _NEW)),
    "update": (
        "update",
        lambda c, row: c.write("update", T, pa.table({"name": ["x"], "rowid": pa.array([row], pa.int64())})),
    ),
    "delete": (
        "delete",
        lambda c, row: c.write("delete", T, pa.table({"rowid": pa.array([row], pa.int64())})),
    ),
    "create": ("create", lambda c, _: c.create_table("db1", "s", "t3", _COLUMNS)),
}
_SQL: dict[str, tuple[str, Callable[[Flight, int], object]]] = {
    "scan": ("select", lambda c, _: query(c, "SELECT * FROM s.t")),
    "explain": ("browse", lambda c, _: prepare(c, "EXPLAIN SELECT * FROM s.t")),
    "prepare": ("browse", lambda c, _: prepare(c, "SELECT * FROM s.t")),
    "insert": ("insert", lambda c, _: update(c, "INSERT INTO s.t VALUES (9, 'new')")),
    "update": ("select update", lambda c, _: update(c, "UPDATE s.t SET name = 'x' WHERE id = 1")),
    "delete": ("select delete", lambda c, _: update(c, "DELETE FROM s.t WHERE id = 1")),
    "create": ("create", lambda c, _: update(c, "CREATE TABLE s.t3 (a INT)")),
    "alter": ("alter", lambda c, _: update(c, "ALTER TABLE s.t ADD COLUMN x INT")),
    "drop": ("drop", lambda c, _: update(c, "DROP TABLE s.t")),
}


def _spoken(dialect: str, flight: Flight) -> tuple[dict[str, Any], object]:
    """Return the operations of a dialect, and the client that speaks it."""
    if dialect == "json":
        return _JSON, JsonClient(flight)
    return (_AIRPORT if dialect == "airport" else _SQL), flight


def _outcomes(world: _World, operations: dict[str, Any], client: object) -> dict[str, str]:
    outcomes = {}
    for name, (_, attempt) in operations.items():
        try:
            attempt(client, ids(world.table())[0])
            outcomes[name] = "OK"
        except Exception as error:
            code = getattr(error, "code", None)
            if code is None:
                raise
            outcomes[name] = code().name
    return outcomes


@pytest.mark.parametrize("granted", _SETS)
@pytest.mark.parametrize("dialect", ["json", "airport", "sql"])
def test_grants_hold_in_every_dialect(
    world: _World, server: sparkport.Server, ada: str, dialect: str, granted: str
) -> None:
    """Each operation succeeds with the privileges that it needs, and is refused without."""
    with Flight(server.location, ada, airport=dialect == "airport") as flight:
        operations, client = _spoken(dialect, flight)
        _allow(world, f"browse {granted}", more='[[grant]]\nto = "*"\nallow = "sql"\ncatalogs = "db1"\n')
        outcomes = _outcomes(world, operations, client)

    expected = {
        name: "OK"
        if granted == "admin" or set(needed.split()) <= {"browse", *granted.split()}
        else "PERMISSION_DENIED"
        for name, (needed, _) in operations.items()
    }
    assert outcomes == expected


@pytest.mark.parametrize("dialect", ["json", "airport", "sql"])
def test_without_a_grant_nothing_exists(
    world: _World, server: sparkport.Server, ada: str, dialect: str
) -> None:
    """With an access file that grants nothing, the catalog itself is not there."""
    with Flight(server.location, ada, airport=dialect == "airport") as flight:
        outcomes = _outcomes(world, *_spoken(dialect, flight))

    assert set(outcomes.values()) == {"NOT_FOUND"}


def test_file_counts_at_once_and_a_broken_one_grants_nothing(
    world: _World, server: sparkport.Server, ada: str
) -> None:
    """Changes hold for the next call; a file that is not valid or gone lets nobody do anything."""
    seen = []
    with sparkport.connect(server.location, token=ada) as client:
        for text in ("", "select", "broken", "select", "gone"):
            if text == "broken":
                world.file.write_text("[[grant]]\nto = 'nobody-knows'\n")
            elif text == "gone":
                world.file.unlink()
            else:
                _allow(world, text) if text else world.file.write_text("[roles]")
            try:
                seen.append(len(client.tables()))
            except NotFoundError:
                seen.append(-1)

    assert [max(count, 0) for count in seen] == [0, 1, 0, 1, 0]


def test_roles_come_from_tokens_and_members(world: _World, server: sparkport.Server, ada: str) -> None:
    """A role of the token counts as one of the file's list; one that the file does not know is nothing."""
    bob = world.tokens.create("bob", None, ["reader", "unheard-of"])
    world.file.write_text(
        '[roles]\nreader = []\nwriter = ["ada"]\n'
        '[[grant]]\nto = "reader"\nallow = "select"\ntables = "db1.s.t"\n'
        '[[grant]]\nto = "writer"\nallow = "insert"\ntables = "db1.s.t"\n'
    )
    with (
        sparkport.connect(server.location, token=ada) as writer,
        sparkport.connect(server.location, token=bob) as reader,
    ):
        writer.insert("s", "t", _NEW)
        with pytest.raises(PermissionDeniedError):
            writer.scan("s", "t").read_all()
        with pytest.raises(PermissionDeniedError):
            reader.insert("s", "t", _NEW)

        assert reader.scan("s", "t").read_all().num_rows == 3


def test_listings_show_what_may_be_browsed_alone(world: _World, server: sparkport.Server, ada: str) -> None:
    """No listing in any dialect names a hidden table, schema or catalog."""
    _allow(world, "select", more='[[grant]]\nto = "*"\nallow = "sql"\ncatalogs = "db1"\n')
    with (
        Flight(server.location, ada) as airport,
        Flight(server.location, ada, airport=False) as plain,
    ):
        (listing,) = airport.action("list_schemas", {"catalog_name": "db1"})
        seen = [
            listing,
            *(info.SerializeToString() for info in plain.list_flights()),
            *(info.SerializeToString() for info in airport.list_flights()),
            str(run(plain, sql.CommandGetCatalogs()).to_pylist()).encode(),
            str(run(plain, sql.CommandGetDbSchemas()).to_pylist()).encode(),
            str(run(plain, sql.CommandGetTables()).to_pylist()).encode(),
            str(run(plain, sql.CommandGetPrimaryKeys(table="hidden")).to_pylist()).encode(),
            str(query(plain, "SHOW TABLES")).encode(),
            str(refusal(lambda: query(plain, "SELECT * FROM s.hiden"))).encode(),
            str(refusal(lambda: plain.flight_info(path_descriptor("othe", "s", "t")))).encode(),
        ]

    assert all(b"t" in part for part in seen[:1])
    assert not [part for part in seen if b"hidden" in part or b"other" in part]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM s.hidden",
        "WITH h AS (SELECT * FROM s.hidden) SELECT * FROM h",
        "SELECT (SELECT max(name) FROM s.hidden) AS m FROM s.t",
        "SELECT * FROM s.t WHERE EXISTS (SELECT 1 FROM s.HIDDEN)",
        'SELECT * FROM db1."s"."hidden"',
        "EXPLAIN SELECT * FROM s.hidden",
        "EXPLAIN ANALYZE SELECT * FROM s.hidden",
        "DESCRIBE s.hidden",
        "SELECT * FROM s.t UNION ALL SELECT * FROM s.hidden",
        "INSERT INTO s.t SELECT * FROM s.hidden",
        "UPDATE s.t SET name = (SELECT max(name) FROM s.hidden)",
        "DELETE FROM s.t WHERE id IN (SELECT id FROM s.hidden)",
        "CREATE TABLE s.t3 AS SELECT * FROM s.hidden",
        "DROP TABLE s.hidden",
        "ALTER TABLE s.hidden RENAME TO t3",
        "ALTER TABLE s.hidden ADD COLUMN x INT",
    ],
)
def test_no_statement_gets_to_a_hidden_table(
    world: _World, server: sparkport.Server, ada: str, statement: str
) -> None:
    """Each says that the table is not there, as for one that is not."""
    _allow(
        world,
        "select insert update delete create alter drop",
        more='[[grant]]\nto = "*"\nallow = "sql"\ncatalogs = "db1"\n',
    )
    is_change = statement.split(maxsplit=1)[0] in {"INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER"}
    with Flight(server.location, ada, airport=False) as flight:
        attempt = update if is_change else query
        refused = refusal(lambda: attempt(flight, statement))
        missing = refusal(
            lambda: attempt(flight, statement.replace("hidden", "gone99").replace("HIDDEN", "GONE99"))
        )

    assert refused[0] == missing[0] == "NOT_FOUND"
    assert refused[1].lower().replace("hidden", "gone99") == missing[1].lower()
    assert rows(world.table("hidden")) == rows(world.table())


def test_tickets_and_statements_go_by_the_grants_of_now(
    world: _World, server: sparkport.Server, ada: str
) -> None:
    """A ticket, a prepared statement and a count that were made before a grant ended are of no use."""
    sql_grant = '[[grant]]\nto = "*"\nallow = "sql"\ncatalogs = "db1"\n'
    _allow(world, "select", more=sql_grant)
    with Flight(server.location, ada) as airport, Flight(server.location, ada, airport=False) as plain:
        ticket = airport.scan(T, [0, 1])[0]
        count = airport.scan(T, [0])[0]
        statement = prepare(plain, "SELECT * FROM s.t").prepared_statement_handle
        command = sql.CommandPreparedStatementQuery(prepared_statement_handle=statement)
        before = run(plain, command).num_rows
        _allow(world, "browse", more=sql_grant)
        codes = [
            refusal(lambda: airport.get(ticket))[0],
            refusal(lambda: airport.get(count))[0],
            refusal(lambda: run(plain, command))[0],
        ]

    assert before == 2
    assert codes == ["PERMISSION_DENIED"] * 3


def test_catalog_version_rises_with_the_file(world: _World, server: sparkport.Server, ada: str) -> None:
    """DuckDB keeps its listing until the version changes, so a change of the file is one."""
    versions, listings = [], []
    with Flight(server.location, ada) as flight:
        for privileges in ("select", "browse", "select"):
            _allow(world, privileges, thing=f'tables = "db1.s.{"t" if privileges == "select" else "hidden"}"')
            (version,) = flight.action("catalog_version", {"catalog_name": "db1"})
            versions.append(msgspec.msgpack.decode(version)["catalog_version"])
            listings += flight.action("list_schemas", {"catalog_name": "db1"})

    assert versions[0] < versions[1] < versions[2]
    assert listings[0] != listings[1]


def test_caches_never_mix_callers(world: _World, server: sparkport.Server, ada: str) -> None:
    """Two callers with different views, at the same time and on the same table, each see their own."""
    bob = world.tokens.create("bob", None)
    world.file.write_text(
        '[roles]\na = ["ada"]\nb = ["bob"]\n'
        '[[grant]]\nto = "*"\nallow = ["select", "sql"]\ncatalogs = "db1"\n'
        '[[filter]]\nfor = "a"\ntables = "db1.s.t"\nrows = "id = 1"\n'
        '[[filter]]\nfor = "b"\ntables = "db1.s.t"\nrows = "id = 2"\n'
        '[[grant]]\nto = "b"\ndeny = "browse"\ntables = "db1.s.hidden"\n'
        '[[grant]]\nto = "a"\ndeny = "browse"\ncolumns = "db1.s.hidden.name"\n'
    )
    wrong: list[object] = []

    def look(token: str, number: int) -> None:
        with (
            Flight(server.location, token) as airport,
            Flight(server.location, token, airport=False) as plain,
        ):
            for _ in range(15):
                (listing,) = airport.action("list_schemas", {"catalog_name": "db1"})
                seen = (
                    [row["id"] for row in airport.read(T, 2).to_pylist()],
                    [row["id"] for row in query(plain, "SELECT id FROM s.t")],
                    query(plain, "SELECT count(*) AS n FROM s.t"),
                    [table["table_name"] for table in run(plain, sql.CommandGetTables()).to_pylist()],
                    listing,
                )
                listings.setdefault(number, listing)
                tables = ["hidden", "t"] if number == 1 else ["t"]
                if seen != ([number], [number], [{"n": 1}], tables, listings[number]):
                    wrong.append(seen)

    listings: dict[int, bytes] = {}
    threads = [threading.Thread(target=look, args=pair) for pair in ((ada, 1), (bob, 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert listings[1] != listings[2]


def test_masked_values_cannot_be_found_out(world: _World, server: sparkport.Server, ada: str) -> None:
    """Neither filters, joins, aggregates nor statistics of a masked column tell its values."""
    world.file.write_text(
        '[roles]\n[[grant]]\nto = "*"\nallow = ["select", "sql"]\ncatalogs = "db1"\n'
        '[[mask]]\nfor = "*"\ncolumns = "db1.s.t.name"\nvalue = "\'*\'"\n'
    )
    probes = [
        "SELECT id FROM s.t WHERE name = 'one'",
        "SELECT id FROM s.t WHERE name LIKE 'o%'",
        "SELECT id FROM s.t WHERE length(name) = 3 AND name > 'a'",
        "SELECT t.id FROM s.t JOIN (VALUES ('one')) v(x) ON t.name = v.x",
        "SELECT id FROM s.t WHERE name IN (SELECT 'two')",
    ]
    with (
        Flight(server.location, ada, airport=False) as flight,
        Flight(server.location, ada) as airport,
    ):
        found = [query(flight, probe) for probe in probes]
        extremes = query(flight, "SELECT min(name) AS a, max(name) AS b, count(DISTINCT name) AS c FROM s.t")
        statistics = refusal(
            lambda: airport.action(
                "column_statistics", {"flight_descriptor": T, "column_name": "name", "type": "VARCHAR"}
            )
        )

    assert found == [[]] * len(probes)
    assert extremes == [{"a": "*", "b": "*", "c": 1}]
    assert statistics[0] == "FAILED_PRECONDITION"


def test_access_file_must_be_valid_at_the_start(world: _World) -> None:
    """A server does not start with a file that is not valid, nor with one that others can write."""
    world.file.write_text('[[filter]]\nfor = "*"\ntables = "a.b.c"\nrows = "1 +"\n')
    with pytest.raises(ConfigError, match="line 1"):
        sparkport.Server({"db1": world.catalog}, port=0, access=world.file)
    world.file.write_text("[roles]")
    world.file.chmod(0o666)
    with pytest.raises(ConfigError, match="others can write"):
        sparkport.Server({"db1": world.catalog}, port=0, access=world.file)
