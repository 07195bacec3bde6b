"""Flight SQL's GetSqlInfo: what a server tells of itself, as pairs of a number and a value of some type."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparkport.protocol.flight_sql.result_schemas import SQL_INFO, SQL_INFO_VALUE


@dataclass(frozen=True, slots=True)
class Ordinal:
    """A number that the specification has as int32, among them sets of bits."""

    value: int


Value = str | bool | int | Ordinal | Sequence[str] | Mapping[int, Sequence[int]]


class SqlInfo(enum.IntEnum):
    """The numbers of the specification that mean something here."""

    SERVER_NAME = 0
    SERVER_VERSION = 1
    SERVER_ARROW_VERSION = 2
    SERVER_READ_ONLY = 3
    SERVER_SQL = 4
    SERVER_SUBSTRAIT = 5
    SERVER_TRANSACTION = 8
    SERVER_CANCEL = 9
    SERVER_BULK_INGESTION = 10
    SERVER_INGEST_TRANSACTIONS_SUPPORTED = 11
    SERVER_STATEMENT_TIMEOUT = 100
    SERVER_TRANSACTION_TIMEOUT = 101
    DDL_CATALOG = 500
    DDL_SCHEMA = 501
    DDL_TABLE = 502
    IDENTIFIER_CASE = 503
    IDENTIFIER_QUOTE_CHAR = 504
    QUOTED_IDENTIFIER_CASE = 505
    ALL_TABLES_ARE_SELECTABLE = 506
    NULL_ORDERING = 507
    KEYWORDS = 508
    NUMERIC_FUNCTIONS = 509
    STRING_FUNCTIONS = 510
    SYSTEM_FUNCTIONS = 511
    DATETIME_FUNCTIONS = 512
    SEARCH_STRING_ESCAPE = 513
    EXTRA_NAME_CHARACTERS = 514
    SUPPORTS_COLUMN_ALIASING = 515
    NULL_PLUS_NULL_IS_NULL = 516
    SUPPORTS_CONVERT = 517
    SUPPORTS_TABLE_CORRELATION_NAMES = 518
    SUPPORTS_DIFFERENT_TABLE_CORRELATION_NAMES = 519
    SUPPORTS_EXPRESSIONS_IN_ORDER_BY = 520
    SUPPORTS_ORDER_BY_UNRELATED = 521
    SUPPORTED_GROUP_BY = 522
    SUPPORTS_LIKE_ESCAPE_CLAUSE = 523
    SUPPORTS_NON_NULLABLE_COLUMNS = 524
    SUPPORTED_GRAMMAR = 525
    ANSI92_SUPPORTED_LEVEL = 526
    SUPPORTS_INTEGRITY_ENHANCEMENT_FACILITY = 527
    OUTER_JOINS_SUPPORT_LEVEL = 528
    SCHEMA_TERM = 529
    PROCEDURE_TERM = 530
    CATALOG_TERM = 531
    CATALOG_AT_START = 532
    SCHEMAS_SUPPORTED_ACTIONS = 533
    CATALOGS_SUPPORTED_ACTIONS = 534
    SUPPORTED_POSITIONED_COMMANDS = 535
    SELECT_FOR_UPDATE_SUPPORTED = 536
    STORED_PROCEDURES_SUPPORTED = 537
    SUPPORTED_SUBQUERIES = 538
    CORRELATED_SUBQUERIES_SUPPORTED = 539
    SUPPORTED_UNIONS = 540
    MAX_STATEMENT_LENGTH = 557
    DEFAULT_TRANSACTION_ISOLATION = 562
    TRANSACTIONS_SUPPORTED = 563
    SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS = 564
    DATA_DEFINITION_CAUSES_TRANSACTION_COMMIT = 565
    DATA_DEFINITIONS_IN_TRANSACTIONS_IGNORED = 566
    SUPPORTED_RESULT_SET_TYPES = 567
    BATCH_UPDATES_SUPPORTED = 572
    SAVEPOINTS_SUPPORTED = 573
    NAMED_PARAMETERS_SUPPORTED = 574
    LOCATORS_UPDATE_COPY = 575
    STORED_FUNCTIONS_USING_CALL_SYNTAX_SUPPORTED = 576


def encode(values: Mapping[int, Value], ids: Sequence[int]) -> pa.Table:
    """Return the values with these numbers, all without any; a number that means nothing has no row."""
    chosen = {number: values[number] for number in ids if number in values} if ids else dict(values)
    members: list[list[object]] = [[] for _ in range(SQL_INFO_VALUE.num_fields)]
    kinds: list[int] = []
    offsets: list[int] = []
    for value in chosen.values():
        kind, plain = _member(value)
        kinds.append(kind)
        offsets.append(len(members[kind]))
        members[kind].append(plain)
    children = [pa.array(column, SQL_INFO_VALUE.field(index).type) for index, column in enumerate(members)]
    names = [SQL_INFO_VALUE.field(index).name for index in range(len(members))]
    union = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()), pa.array(offsets, pa.int32()), children, field_names=names
    )
    return pa.Table.from_arrays([pa.array([int(key) for key in chosen], pa.uint32()), union], schema=SQL_INFO)


def _member(value: Value) -> tuple[int, object]:
    """Return which member of the union a value belongs to, and the value."""
    match value:
        case str():
            return 0, value
        case bool():
            return 1, value
        case int():
            return 2, value
        case Ordinal():
            return 3, value.value
        case Mapping():
            return 5, [(key, list(items)) for key, items in value.items()]
        case _:
            return 4, list(value)
