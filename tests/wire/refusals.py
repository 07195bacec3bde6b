"""The recorded statements that are refused, with code and message; all others succeed."""

from __future__ import annotations

_NOT_NULL = "INVALID_ARGUMENT NOT NULL constraint of table '{}' failed in column '{}'"
_LOST_NAME = (
    "INVALID_ARGUMENT the name of the new field in '{}' was not sent (DuckDB's Airport extension loses it);"
    " change the column's type instead: ALTER TABLE ... ALTER ... TYPE STRUCT(...)"
)
_COMMAND = (
    "INVALID_ARGUMENT a command must be schema.table, catalog.schema.table, or JSON with schema and table"
)
_PATH = "INVALID_ARGUMENT a path is [schema, table] or [catalog, schema, table]; this one has 1 parts"
_NO_COLUMN = "NOT_FOUND column 'nosuch' not found"
_NO_FIELD = "NOT_FOUND field '{}' not found. Did you mean '{}'?"
_TAKE = "SELECT * FROM airport_take_flight('grpc://127.0.0.1:50422', {})"

REFUSALS: dict[str, dict[str, str]] = {
    "04-schema-ddl": {
        "CREATE SCHEMA db1.s2": "ALREADY_EXISTS schema 's2' already exists",
        # The client does not send IF NOT EXISTS, so the server cannot tell.
        "CREATE SCHEMA IF NOT EXISTS db1.s2": "ALREADY_EXISTS schema 's2' already exists",
        "DROP SCHEMA db1.s2": "FAILED_PRECONDITION schema 's2' contains tables (1 table: 't');"
        " drop them first or use cascade",
        "DROP SCHEMA db1.s4": "NOT_FOUND schema 's4' not found",
    },
    "08-create-table-conflict-and-ctas": {
        "CREATE TABLE db1.s1.t (i INTEGER)": "ALREADY_EXISTS table 's1.t' already exists",
    },
    "10-alter-columns": {
        "ALTER TABLE db1.s1.t ADD COLUMN n1 INTEGER": "ALREADY_EXISTS column 'n1' already exists",
        "ALTER TABLE db1.s1.t RENAME COLUMN nosuch TO x": _NO_COLUMN,
        "ALTER TABLE db1.s1.t DROP COLUMN nosuch": _NO_COLUMN,
    },
    "12-alter-type": {
        "ALTER TABLE db1.s1.t ALTER COLUMN s TYPE INTEGER": "INVALID_ARGUMENT expression"
        " 'CAST(s AS INTEGER)' failed: Conversion Error: Could not convert string 'a' to INT32"
        " when casting from source column s",
        "ALTER TABLE db1.s1.t ALTER COLUMN nosuch TYPE INTEGER": _NO_COLUMN,
    },
    "13-alter-default": {"ALTER TABLE db1.s1.t ALTER COLUMN nosuch SET DEFAULT 1": _NO_COLUMN},
    "15-alter-not-null": {
        "UPDATE db1.s1.t SET i = NULL": _NOT_NULL.format("t", "i"),
        "ALTER TABLE db1.s1.t ALTER COLUMN i SET NOT NULL": _NOT_NULL.format("t", "i"),
        "ALTER TABLE db1.s1.t ALTER COLUMN nosuch SET NOT NULL": _NO_COLUMN,
    },
    "16-alter-struct-fields": {
        "ALTER TABLE db1.s1.st ADD COLUMN a.z VARCHAR": _LOST_NAME.format("a"),
        "ALTER TABLE db1.s1.st ADD COLUMN IF NOT EXISTS a.b.w INTEGER": _LOST_NAME.format("a.b"),
        "ALTER TABLE db1.s1.st DROP COLUMN a.x": _NO_FIELD.format("a.x", "x2"),
    },
    "53-take-flight": {
        _TAKE.format("'db1/s1/table/t'"): _COMMAND,
        _TAKE.format(r"'a\x00b'::BLOB"): _COMMAND,
        _TAKE.format("['db1/s1/table/nosuch']"): _PATH,
    },
    "70-letter-case": {"CREATE SCHEMA db1.S1": "ALREADY_EXISTS schema 'S1' already exists"},
    "86-variant-constraints-echoed": {
        "UPDATE db1.s1.c SET b = -5": "INVALID_ARGUMENT CHECK ((b > 0)) constraint of table 'c' failed:"
        " a=1, b=-5, d='ok'",
        "UPDATE db1.s1.c SET a = NULL": _NOT_NULL.format("c", "a"),
    },
    "87-variant-if-not-exists": {
        "CREATE TABLE db1.s1.t (i INTEGER)": "ALREADY_EXISTS table 's1.t' already exists",
        "ALTER TABLE db1.s1.t ADD COLUMN i INTEGER": "ALREADY_EXISTS column 'i' already exists",
    },
    "88-variant-alter-struct-fields": {
        "ALTER TABLE db1.s1.st ADD COLUMN a.z VARCHAR": _LOST_NAME.format("a"),
        "ALTER TABLE db1.s1.st ADD COLUMN IF NOT EXISTS a.b.w INTEGER": _LOST_NAME.format("a.b"),
        "ALTER TABLE db1.s1.st DROP COLUMN a.x": _NO_FIELD.format("a.x", "x2"),
        "ALTER TABLE db1.s1.st DROP COLUMN a.b.y CASCADE": _NO_FIELD.format("a.b.y", "y2"),
        "ALTER TABLE IF EXISTS db1.s1.st RENAME COLUMN a.x TO x3": _NO_FIELD.format("a.x", "x2"),
    },
}
