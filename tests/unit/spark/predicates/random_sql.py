"""Random predicates in DuckDB's SQL."""

from __future__ import annotations

import random

from .samples import PATTERNS, SAMPLES, TEXTS, UUIDS

INTEGERS = ["-129", "-1", "0", "1", "2", "3", "127", "1000", "2147483648", "NULL::INTEGER"]
WIDE = [*INTEGERS, "9223372036854775808", "18446744073709551616", "-99999999999999999999999999999999999999"]
DECIMALS = ["1.00", "2.5", "0.001", "-123.45", "9999999.99", "99999999.5", "1.005", "NULL::DECIMAL(5,1)"]
REALS = ["0.0", "-0.0", "nan", "inf", "-inf", "1.0", "2.5", "0.1", "1e300", "16777217"]
MOMENTS = [
    "DATE '2024-01-15'",
    "DATE '1969-12-31'",
    "'infinity'::DATE",
    "'-infinity'::TIMESTAMP",
    "'infinity'::TIMESTAMP",
    "TIMESTAMP '2024-01-01 00:00:00'",
    "TIMESTAMP '2024-01-15 00:00:00'",
    "TIMESTAMP '2024-01-01 01:00:00.000001'",
    "NULL::DATE",
    "NULL::TIMESTAMP",
]
ZONED = ["2024-01-01 00:00:00+00", "2024-01-01 01:00:00+02", "infinity", "-infinity"]
TIMES = ["TIME '10:30:00.123456'", "TIME '00:00:00'", "NULL::TIME"]
BLOBS = [r"'\xFF'::BLOB", "'a'::BLOB", "''::BLOB", r"'\x00'::BLOB", "NULL::BLOB"]
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
TEXT_COLUMNS = ["s", "s2", "dc"]


def quoted(text: str) -> str:
    """Return the text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


class RandomSql:
    """A source of random predicates."""

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def pair(self) -> tuple[str, list[str]]:
        """Return a column and constants that it is compared with."""
        r = self.r
        match r.randrange(12):
            case 0 | 1:
                return r.choice(["i8", "i", "b"]), r.choice([INTEGERS, INTEGERS, DECIMALS])
            case 2:
                return r.choice(["u", "h"]), WIDE
            case 3:
                return "m", r.choice([DECIMALS, INTEGERS])
            case 4 | 5:
                return r.choice(["d", "f"]), [f"'{n}'::{r.choice(['DOUBLE', 'FLOAT'])}" for n in REALS]
            case 6 | 7:
                return r.choice(TEXT_COLUMNS), [*map(quoted, TEXTS), "NULL::VARCHAR"]
            case 8:
                return r.choice(["dt", "ts", "tss"]), MOMENTS
            case 9:
                return "tz", [f"TIMESTAMPTZ '{text}'" for text in ZONED]
            case 10:
                return r.choice([("tm", TIMES), ("bl", BLOBS), ("uu", [f"{quoted(u)}::UUID" for u in UUIDS])])
            case _:
                return r.choice([("bo", ["true", "false"]), ("st.a", INTEGERS), ("b8", ["NULL::BOOLEAN"])])

    def plain(self) -> str:
        """Return a test that every translation can say exactly."""
        r = self.r
        column, constants = self.pair()
        match r.randrange(12):
            case 0 | 1 | 2 | 3 | 4:
                return f"({column} {r.choice(OPERATORS)} {r.choice(constants)})"
            case 5 | 6:
                options = ", ".join(r.choice(constants) for _ in range(r.randrange(1, 4)))
                return f"({column} {r.choice(['IN', 'NOT IN'])} ({options}))"
            case 7:
                between = r.choice(["BETWEEN", "NOT BETWEEN"])
                return f"({column} {between} {r.choice(constants)} AND {r.choice(constants)})"
            case 8:
                return f"({r.choice([*SAMPLES, 'st.b'])} IS {r.choice(['', 'NOT'])} NULL)"
            case 9:
                function = r.choice(["starts_with", "ends_with", "contains", "prefix", "suffix"])
                return f"{function}({r.choice(TEXT_COLUMNS)}, {quoted(r.choice(TEXTS))})"
            case 10:
                like = r.choice(["LIKE", "NOT LIKE"])
                return f"({r.choice(TEXT_COLUMNS)} {like} {quoted(r.choice(PATTERNS))})"
            case _:
                return r.choice(
                    [
                        "bo",
                        "b8",
                        "isnan(d)",
                        "isnan(f)",
                        "lower(s) = 'k'",
                        "upper(s) <> 'AB'",
                        "s ILIKE 'a%'",
                        "s NOT ILIKE 'k'",
                        r"s LIKE 'a\%b' ESCAPE '\'",
                    ]
                )

    def rest(self) -> str:
        """Return a test that is weakened or left out."""
        r = self.r
        column, constants = self.pair()
        operator, constant = r.choice(OPERATORS), r.choice(constants)
        return r.choice(
            [
                f"(coalesce({column}, {r.choice(constants)}) {operator} {constant})",
                f"(if({self.plain()}, {column}, {constant}) {operator} {r.choice(constants)})",
                f"(CASE WHEN {self.plain()} THEN {self.plain()} WHEN bo THEN {self.plain()} END)",
                f"(nullif({column}, {r.choice(constants)}) {operator} {constant})",
                f"(TRY_CAST({column} AS VARCHAR) {operator} 'a')",
                f"(tsn {operator} TIMESTAMP_NS '2024-01-01 00:00:00')",
                f"(tsn::TIMESTAMP {operator} TIMESTAMP '2024-01-01 00:00:00')",
                f"(TRY_CAST(b AS INTEGER) {operator} {r.choice(INTEGERS)})",
                f"(TRY_CAST(dt AS TIMESTAMP) {operator} {r.choice(MOMENTS)})",
                f"(ts::DATE {operator} DATE '2024-01-01')",
                f"(m::DOUBLE {operator} 0.01::DOUBLE)",
                f"(b::DOUBLE {operator} {r.choice(['9007199254740992', '9007199254740994', '2.5'])}::DOUBLE)",
                f"(i::FLOAT {operator} {r.choice(['2147483648', '2.5', '-1'])}::FLOAT)",
                f"(f::DOUBLE {operator} 0.1::DOUBLE)",
                f"(d::FLOAT {operator} 2.5::FLOAT)",
                f"(i {operator} b)",
                f"(lower(s) {operator} {quoted(r.choice(TEXTS))})",
                f"(s ILIKE {quoted(r.choice(PATTERNS))})",
                f"((i > 1) {operator} bo)",
                f"(l[1] {operator} 1)",
                f"(length(s) {operator} 2)",
                f"(h {operator} -170141183460469231731687303715884105727)",
                f"(uu::VARCHAR {operator} {quoted(r.choice(UUIDS))})",
            ]
        )

    def boolean(self, depth: int, *, plain: bool) -> str:
        """Return a predicate, of plain tests only or of any."""
        r = self.r
        if depth == 0:
            return self.plain() if plain or r.random() < 0.5 else self.rest()
        match r.randrange(5):
            case 0:
                return self.boolean(0, plain=plain)
            case 1:
                return f"(NOT {self.boolean(depth - 1, plain=plain)})"
            case 2 | 3:
                return f"({self.boolean(depth - 1, plain=plain)} AND {self.boolean(depth - 1, plain=plain)})"
            case _:
                return f"({self.boolean(depth - 1, plain=plain)} OR {self.boolean(depth - 1, plain=plain)})"
