from __future__ import annotations

from sparkport import Server

from .client import DuckDB

# Every type with values at its ends; each column gets a NULL besides.
PLAIN_TYPES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "0", "127"],
    "SMALLINT": ["-32768", "32767"],
    "INTEGER": ["-2147483648", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "UTINYINT": ["0", "255"],
    "USMALLINT": ["0", "65535"],
    "UINTEGER": ["0", "4294967295"],
    "UBIGINT": ["0", "18446744073709551615"],
    "UHUGEINT": ["0", "1", "340282366920938463463374607431768211455"],
    "FLOAT": ["-0.0", "1.5", "'NaN'", "'Infinity'", "'-Infinity'", "3.4028235e38", "1e-45"],
    "DOUBLE": ["-0.0", "0.1", "'NaN'", "'Infinity'", "'-Infinity'", "1.7976931348623157e308", "5e-324"],
    "DECIMAL(4, 1)": ["-999.9", "999.9"],
    "DECIMAL(9, 3)": ["-999999.999", "0.001"],
    "DECIMAL(18, 6)": ["-999999999999.999999", "0.000001"],
    "DECIMAL(38, 10)": ["-9999999999999999999999999999.9999999999", "0.0000000001"],
    "VARCHAR": ["''", "'plain'", "'it''s \"quoted\"'", "'Gr\u00fc\u00dfe \U0001f600'", "repeat('x', 5000)"],
    "BLOB": ["''::BLOB", "'\\x00\\xFF\\x80'::BLOB", "'abc'::BLOB"],
    "BIGNUM": ["0", "123456789012345678901234567890123456789012345678901234567890", "-1"],
    "DATE": [
        "'1970-01-01'",
        "'0001-01-01'",
        "'9999-12-31'",
        "'infinity'",
        "'-infinity'",
        "'5877642-06-25 (BC)'",
    ],
    "TIME": ["'00:00:00'", "'23:59:59.999999'"],
    "TIMESTAMP": ["'1970-01-01'", "'2262-04-12 12:34:56.123456'", "'infinity'", "'-infinity'"],
    "TIMESTAMP_S": ["'1970-01-01'", "'9999-12-31 23:59:59'"],
    "TIMESTAMP_MS": ["'1969-12-31 23:59:59.999'", "'9999-12-31 23:59:59.999'"],
    "TIMESTAMP_NS": ["'1969-12-31 23:59:59.999999999'", "'2262-04-11 23:47:16.854775806'"],
    "TIMESTAMP WITH TIME ZONE": ["'1970-01-01 00:00:00+00'", "'2024-06-01 12:00:00+05:30'", "'infinity'"],
    "INTERVAL": ["'1 month'", "'-3 days'", "'1 year 2 days 03:04:05.678901'", "'0 seconds'"],
    "INTEGER[]": ["[]", "[1, NULL, 3]", "[2147483647]"],
    "VARCHAR[][]": ["[['a', NULL], NULL, []]", "[]"],
    "INTEGER[3]": ["[1, 2, 3]", "[NULL, 0, -1]"],
    "STRUCT(a INTEGER, b VARCHAR)": ["{'a': 1, 'b': 'x'}", "{'a': NULL, 'b': NULL}"],
    "STRUCT(a INTEGER[], b STRUCT(c DATE))": ["{'a': [1], 'b': {'c': DATE '2024-01-01'}}"],
    "MAP(VARCHAR, INTEGER)": ["MAP {}", "MAP {'a': 1, 'b': NULL}"],
    "UNION(n INTEGER, s VARCHAR)": ["1", "'text'"],
    "STRUCT(m MAP(INTEGER, DOUBLE[]))[]": ["[{'m': MAP {1: [0.5, NULL]}}, NULL]"],
}
# In the default mode the client exports these as other types, whose text is the same.
ALIKE_TYPES = {
    "HUGEINT": ["0", "-99999999999999999999999999999999999999", "99999999999999999999999999999999999999"],
    "UUID": ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "JSON": ["'{\"a\": [1, null]}'", "'1'"],
    "ENUM('green', 'red')": ["'green'", "'red'"],
}
LOSSLESS_TYPES = {
    "BOOLEAN": ["true", "false"],
    "INTEGER": ["1"],
    "VARCHAR": ["'text'"],
    "HUGEINT": ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727", "0"],
    "UUID": ["'00000000-0000-0000-0000-000000000000'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    "JSON": ["'{\"a\": [1, null]}'", "'1'"],
    "BIT": ["'0'", "'101'", "'0000000011111111'"],
    "TIME WITH TIME ZONE": ["'00:00:00+00'", "'23:59:59.999999-15:59'", "'12:00:00+05:30'"],
    "HUGEINT[]": ["[170141183460469231731687303715884105727, NULL]"],
    "UUID[]": ["['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']"],
    "STRUCT(u UUID, h HUGEINT)": ["{'u': 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'h': -1}"],
}


def _statements(kind: str, values: list[str], table: str) -> list[str]:
    """Return one life of a column of a type: made, filled, looked up, changed, emptied."""
    rows = ", ".join(f"({key}, {value})" for key, value in enumerate([*values, "NULL"]))
    typed = values if kind in ALIKE_TYPES else [f"({value})::{kind}" for value in values]
    last = len(values)
    return [
        f"CREATE TABLE {table} (k INTEGER, v {kind})",
        f"INSERT INTO {table} VALUES {rows}",
        f"SELECT k, v::VARCHAR FROM {table} ORDER BY k",
        *(f"SELECT k FROM {table} WHERE v = {value} ORDER BY k" for value in typed),
        f"SELECT k FROM {table} WHERE v <> {typed[0]} ORDER BY k",
        f"SELECT k FROM {table} WHERE v < {typed[-1]} ORDER BY k",
        f"SELECT k FROM {table} WHERE v IN ({typed[0]}, {typed[-1]}) ORDER BY k",
        f"SELECT k FROM {table} WHERE v IS NULL",
        f"SELECT count(*), count(DISTINCT v::VARCHAR), min(v::VARCHAR) FROM {table}",
        f"UPDATE {table} SET v = {typed[0]} WHERE k = {last}",
        f"UPDATE {table} SET v = {typed[-1]} WHERE k = 0 RETURNING k, v::VARCHAR",
        f"SELECT k, v::VARCHAR FROM {table} ORDER BY k",
        f"UPDATE {table} SET v = NULL WHERE k = {last}",
        f"INSERT INTO {table} VALUES (99, {values[0]}) RETURNING v::VARCHAR, k",
        f"INSERT INTO {table} SELECT k + 100, v FROM {table}",
        f"DELETE FROM {table} WHERE k < 100 RETURNING k, v::VARCHAR",
        f"SELECT k, v::VARCHAR FROM {table} ORDER BY k",
    ]


def _differences(
    duckdb: DuckDB, server: Server, mode: str, types: dict[str, list[str]]
) -> list[tuple[str, object, object]]:
    """Run the same statements on the server and on DuckDB's own table; return where they differ."""
    remote = [
        sql
        for index, (kind, values) in enumerate(types.items())
        for sql in _statements(kind, values, f"db.s.t{index}")
    ]
    local = [sql.replace("db.s.", "memory.main.") for sql in remote]
    steps = [f"SET arrow_lossless_conversion = {mode}", "SET TimeZone = 'UTC'", "CREATE SCHEMA db.s"]
    outcomes = duckdb.attempt(server, *steps, *remote, *local)[len(steps) :]
    there, here = outcomes[: len(remote)], outcomes[len(remote) :]
    # Without ORDER BY the order is free: DuckDB itself moves updated rows with lists to the end.
    return [
        (sql, ours.error or ours.rows, theirs.error or theirs.rows)
        for sql, ours, theirs in zip(remote, there, here, strict=True)
        if (ours.error, sorted(map(repr, ours.rows))) != (theirs.error, sorted(map(repr, theirs.rows)))
    ]


def test_every_type_behaves_as_in_a_local_table(duckdb: DuckDB, server: Server) -> None:
    """By default values of all types are kept, found, changed and returned as DuckDB itself does."""
    assert _differences(duckdb, server, "false", PLAIN_TYPES | ALIKE_TYPES) == []


def test_every_type_behaves_as_in_a_local_table_when_lossless(duckdb: DuckDB, server: Server) -> None:
    """With lossless export the types that Arrow lacks are kept, too."""
    assert _differences(duckdb, server, "true", LOSSLESS_TYPES) == []


def test_numbers_too_large_for_the_exported_type_are_refused(duckdb: DuckDB, server: Server) -> None:
    """A HUGEINT column made in the default mode is a DECIMAL(38, 0) and says so."""
    outcomes = duckdb.attempt(
        server,
        "CREATE SCHEMA db.s",
        "CREATE TABLE db.s.t (v HUGEINT)",
        "SELECT data_type FROM duckdb_columns() WHERE database_name = 'db'",
        "INSERT INTO db.s.t VALUES (170141183460469231731687303715884105727)",
        "SELECT count(*) FROM db.s.t",
    )

    assert outcomes[2].rows == [["DECIMAL(38,0)"]]
    assert outcomes[3].kind == "ConversionException"
    assert outcomes[4].rows == [[0]]


def test_large_and_view_exports_are_understood(duckdb: DuckDB, server: Server) -> None:
    """Settings that change the Arrow form of texts and lists do not change the values."""
    columns = "v VARCHAR, w BLOB, x VARCHAR[]"
    settings = [
        "SET arrow_large_buffer_size = true",
        "SET arrow_output_version = '1.4'; SET produce_arrow_string_view = true",
        "SET arrow_output_list_view = true",
    ]
    rows = duckdb.ask(
        server,
        "CREATE SCHEMA db.s",
        f"CREATE TABLE db.s.t ({columns})",
        *(
            sql
            for index, setting in enumerate(settings)
            for sql in (
                setting,
                f"CREATE TABLE db.s.t{index} ({columns})",
                f"INSERT INTO db.s.t{index} VALUES ('text', 'ab'::BLOB, ['a', NULL]), (NULL, NULL, NULL)",
                f"SELECT * FROM db.s.t{index} WHERE v = 'text'",
                f"INSERT INTO db.s.t FROM db.s.t{index} RETURNING *",
                "UPDATE db.s.t SET v = v || ' longer than twelve' RETURNING v",
                "DELETE FROM db.s.t",
            )
        ),
    )

    for index in range(3):
        found, inserted, updated = rows[2 + index * 7 + 3 : 2 + index * 7 + 6]
        assert found == [["text", "6162", ["a", None]]]
        assert inserted == [["text", "6162", ["a", None]], [None, None, None]]
        assert updated == [["text longer than twelve"], [None]]
