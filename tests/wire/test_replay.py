"""What a real DuckDB sent, sent again: the answers are what the client needs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, ConstrainedTable
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from tests import flight_client as wire
from tests.flight_client import ROWID, Flight

from . import replay
from .refusals import REFUSALS
from .replay import Answer, Replay, is_rowid, load

TOKEN = "recorded"

SCENARIOS = sorted(path.stem for path in replay.FOLDER.glob("*.json"))
IN_ORDER = [name for name in SCENARIOS if name != "45-time-travel"]  # its set-up has a history


@pytest.fixture
def client(request: pytest.FixtureRequest, catalog: MemoryCatalog) -> Iterator[Flight]:
    """Serve an empty catalog under the name that the scenario attached."""
    name = getattr(request, "param", "db1")
    with (
        sparkport.Server(
            {name: catalog}, port=0, token=TOKEN, default_catalog=name, grace_seconds=0.1
        ) as server,
        Flight(server.location, TOKEN) as flight,
    ):
        yield flight


def serving(name: str) -> object:
    """Return a parameter that serves the scenario's catalog."""
    return pytest.param(load(name).catalog, name, id=name)


def outcomes(answers: list[Answer]) -> dict[str, str]:
    """Return the statements that failed, with code and message."""
    failed: dict[str, str] = {}
    for answer in answers:
        if answer.code.name != "OK":
            failed[answer.call.sql] = f"{answer.code.name} {answer.message}"
    return failed


def replayed(client: Flight, name: str) -> tuple[Replay, list[Answer]]:
    """Play a scenario from its set-up."""
    played = Replay(client, load(name)).set_up()
    return played, played.play_all()


def values(rows: pa.Table) -> list[str]:
    """Return the rows in a form that can be sorted and compared, also beyond Python's dates."""
    for index, one in enumerate(rows.schema):
        if pa.types.is_date32(one.type) or pa.types.is_timestamp(one.type):
            number = pa.int32() if pa.types.is_date32(one.type) else pa.int64()
            rows = rows.set_column(index, one.name, rows.column(index).cast(number))
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize(("client", "name"), [serving(name) for name in IN_ORDER], indirect=["client"])
def test_every_recorded_call_is_answered_as_the_client_needs_it(client: Flight, name: str) -> None:
    """A whole recorded scenario gets well-formed answers, and errors only where DuckDB's user erred."""
    _, answers = replayed(client, name)

    assert outcomes(answers) == REFUSALS.get(name, {})


@pytest.mark.parametrize(
    ("client", "name"), [serving(name) for name in SCENARIOS if load(name).after], indirect=["client"]
)
def test_recorded_statements_leave_what_duckdb_itself_would(client: Flight, name: str) -> None:
    """After the recorded writes a table has exactly the rows that plain DuckDB ends up with."""
    played, answers = replayed(client, name)

    for answer in answers:
        if answer.call.changed is not None and answer.code.name == "OK":
            assert (answer.call.sql, answer.changed) == (answer.call.sql, answer.call.changed)
    for path, expected in played.scenario.after.items():
        schema, table = path.split(".")
        if (schema, table) in played.entries:
            assert (path, values(played.read(schema, table))) == (path, values(expected))


@pytest.mark.parametrize(
    "name", [name for name in SCENARIOS if name[:2] in {"32", "33", "34", "35", "36", "37", "38"}]
)
def test_recorded_filters_never_lose_a_row(client: Flight, name: str) -> None:
    """A scan with a recorded filter has at least the rows for which DuckDB finds the condition true."""
    played = Replay(client, load(name)).set_up()
    tables = {f"{schema}.{table}": rows for schema, table, rows in played.scenario.tables}
    matching: list[int] | None = None
    seen = 0

    for call in played.scenario.calls:
        answer = played.play(call)
        assert (call.sql, answer.code.name, answer.message) == (call.sql, "OK", "")
        if call.action == "endpoints":
            matching = call.matching
            continue
        stored = tables[call.sql.split("db1.")[1].split(" ")[0]]
        assert answer.rows is not None
        got = [name for name in stored.schema.names if answer.rows[name].null_count < answer.rows.num_rows]
        if matching is not None:
            wanted = Counter(values(stored.take(pa.array(matching, pa.int64())).select(got)))
            assert wanted <= Counter(values(answer.rows.select(got))), call.sql
            seen += 1

    assert seen > 0


@pytest.mark.parametrize("mode", ["05-create-table-types-default", "06-create-table-types-lossless"])
def test_create_table_echoes_every_type(client: Flight, mode: str) -> None:
    """A table of any DuckDB type is described with the very fields that were sent, and a row id."""
    _, answers = replayed(client, mode)
    made = [answer for answer in answers if answer.call.action == "create_table"]

    assert len(made) == 42
    for answer in made:
        action = pb.Action.FromString(answer.call.messages[0])
        sent = pa.ipc.read_schema(pa.py_buffer(_binary(action.body, "arrow_schema")))
        shown = wire.schema_in(pb.FlightInfo.FromString(answer.results[0]))
        for field, other in zip(sent, shown, strict=False):
            # DuckDB has no dictionaries in tables: an ENUM becomes a VARCHAR.
            plain = field.type.value_type if isinstance(field.type, pa.DictionaryType) else field.type
            assert (other.name, other.type, other.nullable) == (field.name, plain, True)
        assert [field.name for field in shown if is_rowid(field)] == ["rowid"]


def _binary(body: bytes, key: str) -> bytes:
    """Return a value that the client packs as a msgpack str although it is binary."""
    raw = msgspec.msgpack.decode(body, type=dict[str, msgspec.Raw])[key]
    data = bytes(raw)
    skip = {0xD9: 2, 0xDA: 3, 0xDB: 5}.get(data[0], 1)
    return data[skip:]


def test_insert_returning_answers_each_batch(client: Flight) -> None:
    """INSERT ... RETURNING gets one batch per batch, with all columns and the row id."""
    _, answers = replayed(client, "21-insert-returning")
    returned = [
        [row for rows in answer.returned for row in rows.to_pylist()]
        for answer in answers
        if answer.call.method == "DoExchange"
    ]

    assert returned[0] == [
        {"id": 1, "name": "one", "active": True, "rowid": 0},
        {"id": 2, "name": "two", "active": None, "rowid": 1},
    ]


def test_many_batches_are_answered_in_lockstep(client: Flight) -> None:
    """Many rows come in batches of at most 2048, and RETURNING answers each before the next is sent."""
    _, answers = replayed(client, "22-insert-many-batches")
    silent, returning = [answer for answer in answers if answer.call.method == "DoExchange"]

    assert (silent.changed, silent.returned) == (5000, [])
    assert (returning.changed, [rows.num_rows for rows in returning.returned]) == (3000, [2048, 952])


def test_update_returning_answers_in_incoming_order(client: Flight) -> None:
    """UPDATE ... RETURNING answers in the order in which the columns came, the row id last."""
    _, answers = replayed(client, "94-variant-update-returning")
    updates = [answer for answer in answers if answer.returned]

    assert [answer.returned[0].to_pylist() for answer in updates] == [
        [{"name": "renamed", "active": True, "id": 1, "rowid": 0}],
        [{"id": 10, "active": True, "name": "renamed", "rowid": 0}],
        [
            {"active": False, "id": 3, "name": "renamed", "rowid": 0},
            {"active": False, "id": 3, "name": "two", "rowid": 1},
        ],
    ]


def test_update_of_a_later_column_returns_the_right_values(client: Flight) -> None:
    """An UPDATE of a column that is not the first one returns each value under its own name."""
    _, answers = replayed(client, "27-update-returning-nonleading")
    (update,) = [answer for answer in answers if answer.returned]

    assert update.returned[0].column_names == ["name", "active", "id", "rowid"]
    assert update.returned[0].to_pylist() == [{"name": "renamed", "active": True, "id": 1, "rowid": 0}]


def test_column_ids_may_repeat(client: Flight) -> None:
    """A scan that names a column twice still delivers every advertised column once, in place."""
    played, answers = replayed(client, "25-update")
    repeated = 0
    for answer, following in itertools.pairwise(answers):
        if answer.call.action == "endpoints":
            body = pb.Action.FromString(answer.call.messages[0]).body
            ids = msgspec.msgpack.decode(body, type=dict[str, msgspec.Raw])["parameters"]
            columns = msgspec.msgpack.decode(ids)["column_ids"]
            repeated += len(columns) != len(set(columns))
            assert following.rows is not None
            assert following.rows.column_names in (["id", "name", "active", "rowid"], ["k", "tags", "rowid"])

    assert repeated > 0
    assert played.read("s1", "l").to_pylist() == [{"k": 1, "tags": ["z"]}, {"k": 5, "tags": ["b"]}]


def test_delete_returning_answers_the_removed_rows(client: Flight) -> None:
    """DELETE ... RETURNING answers the rows as they were, by the table's names."""
    _, answers = replayed(client, "28-delete-truncate")
    removed = [answer.returned[0].to_pylist() for answer in answers if answer.returned]

    assert removed == [
        [{"id": 2, "name": "two", "active": None, "rowid": 1}],
        [{"id": 5, "name": "five", "active": True, "rowid": 4}],
    ]


def test_time_travel_reads_rows_and_columns_of_the_version(client: Flight) -> None:
    """AT (VERSION => n) shows the rows and the columns that the table had then."""
    scenario = load("45-time-travel")
    client.create_schema("db1", "s1")
    info = client.create_table("db1", "s1", "v", pa.schema([("i", pa.int32())]))
    for number in (1, 2):
        rows = pa.table({"i": pa.array([number], pa.int32())})
        assert client.insert(wire.descriptor_of(info), rows) == 1
    column = bytes(pa.schema([("x", pa.string())]).serialize())
    client.action("add_column", {"catalog": "db1", "schema": "s1", "name": "v", "column_schema": column})
    played = Replay(client, replace_setup(scenario)).set_up()
    answers = played.play_all()
    read: dict[str, list[dict[str, object]]] = {}
    for answer in answers:
        if answer.rows is not None:
            read[answer.call.sql] = answer.rows.drop_columns(["rowid"]).to_pylist()

    assert read == {
        "SELECT i FROM db1.s1.v AT (VERSION => 0)": [],
        "SELECT i FROM db1.s1.v AT (VERSION => 1)": [{"i": 1}],
        "SELECT * FROM db1.s1.v AT (VERSION => 3)": [{"i": 1, "x": None}, {"i": 2, "x": None}],
        "SELECT i FROM db1.s1.v AT (VERSION => 1) WHERE i = 1": [{"i": 1}],
        "SELECT i FROM db1.s1.v AT (VERSION => 1 + 1)": [{"i": 1}, {"i": 2}],
    }
    assert outcomes(answers) == {
        "SELECT i FROM db1.s1.v AT (TIMESTAMP => TIMESTAMP '2024-01-01 00:00:00')": "NOT_FOUND"
        " version at timestamp '2024-01-01 00:00:00' not found",
        "SELECT i FROM db1.s1.v AT (TIMESTAMP => '2024-01-01')": "NOT_FOUND"
        " version at timestamp '2024-01-01' not found",
        "SELECT i FROM db1.s1.v AT (VERSION => 99)": "NOT_FOUND version '99' not found",
        "SELECT i FROM db1.s1.v AT (VERSION => 'abc')": "INVALID_ARGUMENT 'abc' is not a version number",
    }


def replace_setup(scenario: replay.Scenario) -> replay.Scenario:
    """Return the scenario without schemas and tables to make."""
    return replay.Scenario(scenario.name, scenario.catalog, [], [], scenario.calls, {}, {})


def test_names_in_another_case_find_their_objects(client: Flight) -> None:
    """DROP, ALTER and scans work with names as typed, whatever their letter case."""
    played, _ = replayed(client, "70-letter-case")
    (listing,) = client.action("list_schemas", {"catalog_name": "db1"})

    assert list(replay.flights_by_schema(listing)) == ["sparkport"]
    assert ("s1", "cased") in played.entries


@pytest.mark.parametrize("client", ["dblist"], indirect=True)
def test_list_flights_obeys_the_filter_headers(client: Flight) -> None:
    """ListFlights for a schema lists that schema's tables only, under the attached name."""
    _, answers = replayed(client, "84-variant-list-flights-contents")
    listed = [
        (
            answer.call.header("airport-list-flights-filter-schema"),
            [
                msgspec.msgpack.decode(pb.FlightInfo.FromString(one).app_metadata)["name"]
                for one in answer.results
            ],
        )
        for answer in answers
        if answer.call.method == "ListFlights"
    ]

    assert listed == [
        ("static_data", ["employees"]),
        ("utils", []),
        ("utils", []),
        ("remote_data", []),
        ("utils", []),
    ]


def test_statistics_have_the_columns_type(client: Flight) -> None:
    """Every recorded statistics request gets one row whose bounds have the column's own type."""
    played, answers = replayed(client, "57-statistics")
    columns = wire.schema_in(played.entries["static_data", "employees"])
    seen: set[str] = set()
    for answer in answers:
        if answer.call.action == "column_statistics":
            body = pb.Action.FromString(answer.call.messages[0]).body
            name = msgspec.msgpack.decode(_binary_free(body))["column_name"]
            rows = pa.ipc.open_stream(pa.py_buffer(answer.results[0])).read_all()
            assert rows.num_rows == 1
            assert rows.schema.field("min").type == columns.field(name).type
            assert rows.schema.field("max").type == columns.field(name).type
            assert {"has_not_null", "has_null", "distinct_count"} <= set(rows.column_names)
            seen.add(name)

    assert seen == {field.name for field in columns if not is_rowid(field)}


def _binary_free(body: bytes) -> bytes:
    """Return a msgpack map without the entries that are not text."""
    entries = msgspec.msgpack.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.msgpack.encode({key: raw for key, raw in entries.items() if key != "flight_descriptor"})


def test_transaction_id_gives_reads_one_moment(client: Flight) -> None:
    """Calls with a transaction id read the moment at which it began, and their own writes."""
    client.create_schema("db1", "s1")
    info = client.create_table("db1", "s1", "t", pa.schema([("i", pa.int32())]))
    descriptor = wire.descriptor_of(info)
    one = pa.table({"i": pa.array([1], pa.int32())})
    (body,) = client.action("create_transaction", {"catalog_name": "db1"})
    own = [("airport-transaction-id", msgspec.msgpack.decode(body)["identifier"])]
    client.insert(descriptor, one)

    assert client.read(descriptor, 1, own).num_rows == 0
    client.insert(descriptor, one, headers=own)
    assert client.read(descriptor, 1, own).to_pydict() == {"i": [1], "rowid": [1]}
    assert client.read(descriptor, 1, [("airport-transaction-id", "")]).num_rows == 2


@pytest.mark.parametrize("path", [("s1", "t"), ("db1", "s1", "t")])
def test_take_flight_by_path(client: Flight, path: tuple[str, ...]) -> None:
    """airport_take_flight with a list finds schema.table and catalog.schema.table."""
    replayed(client, "53-take-flight")
    descriptor = wire.path_descriptor(*path)
    info = client.flight_info(descriptor)

    assert wire.descriptor_of(info) == descriptor
    assert client.read(descriptor, 4).num_rows == 3


@pytest.mark.parametrize("command", ["s1.t", "db1.s1.t", '"db1"."s1"."t"', '{"schema": "s1", "table": "t"}'])
def test_take_flight_by_command(client: Flight, command: str) -> None:
    """airport_take_flight with a text finds dotted, quoted and JSON names."""
    replayed(client, "53-take-flight")
    descriptor = wire.cmd_descriptor(command)
    info = client.flight_info(descriptor)

    assert wire.descriptor_of(info) == descriptor
    assert info.total_records == 3
    assert client.read(descriptor, 4).num_rows == 3


def test_databases_are_listed(client: Flight) -> None:
    """airport_databases reads the names of the catalogs."""
    _, answers = replayed(client, "92-variant-airport-databases")
    read = [answer.rows.to_pylist() for answer in answers if answer.rows is not None]

    assert read == [[{"name": "db1", "description": None}]] * 2


def test_composite_key_keeps_its_declared_order(client: Flight, catalog: MemoryCatalog) -> None:
    """The order of a composite key, which the key list loses, is taken from the NOT NULL columns."""
    replayed(client, "72-create-table-key-forms")
    schema = catalog.schema(Call(), "s1")
    assert schema is not None
    tables = {table.name: table for table in schema.tables(Call()) if isinstance(table, ConstrainedTable)}

    assert {name: table.constraints.primary_key for name, table in tables.items()} == {
        "a": ("y",),
        "b": (),
        "c": ("z", "y"),
        "d": ("w", "z", "y", "x"),
        "e": (),
        "f": ("A b",),
    }
    assert tables["b"].constraints.unique_keys == (("y",),)
    assert tables["e"].constraints.unique_keys == (("x",), ("y",))


def test_count_star_gets_rows_without_values(client: Flight) -> None:
    """count(*) asks for the row id, of which it does not look at a single one."""
    played, answers = replayed(client, "30-select-projection")
    counts = [
        following.rows
        for answer, following in itertools.pairwise(answers)
        if answer.call.action == "endpoints" and answer.call.sql == "SELECT count(*) FROM db1.s1.t"
    ]

    assert ROWID == 18446744073709551615
    assert counts[0] is not None
    assert counts[0].column("rowid").to_pylist() == [None, None, None]
    assert counts[0].schema.types == wire.schema_in(played.entries["s1", "t"]).types
