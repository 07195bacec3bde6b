"""Random rows, row filters and masks, and what DuckDB makes of them, for tests."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa

COLUMNS = pa.schema(
    [("i", pa.int64()), ("j", pa.int32()), ("s", pa.string()), ("d", pa.float64()), ("b", pa.bool_())]
)
_MASKS = {
    "i": ["NULL", "0", "i % 2", "CASE WHEN has_role('boss') THEN i ELSE -1 END"],
    "j": ["NULL", "j + 1", "i % 7"],
    "s": ["'***'", "left(s, 1)", "upper(s) || current_principal()", "NULL"],
    "d": ["round(d)", "NULL"],
    "b": ["NOT b", "false"],
}


def random_row(chance: random.Random) -> dict[str, object]:
    """Return a row."""
    values: dict[str, list[object]] = {
        "i": [None, -1, 0, 1, 2, 3, 1 << 40],
        "j": [None, -5, 0, 5],
        "s": [None, "", "a", "ada", "B", "ä", "a%"],
        "d": [None, 0.0, -1.5, 2.0, float("nan"), float("inf")],
        "b": [None, True, False],
    }
    return {name: chance.choice(options) for name, options in values.items()}


def random_condition(chance: random.Random, depth: int = 2) -> str:
    """Return a condition on the columns in DuckDB's SQL, with what an access file may say of the caller."""
    if depth and chance.random() < 0.6:
        parts = [random_condition(chance, depth - 1) for _ in range(chance.randint(1, 3))]
        text = f" {chance.choice(['AND', 'OR'])} ".join(f"({part})" for part in parts)
        return f"NOT ({text})" if chance.random() < 0.25 else text
    compared = chance.choice(["=", "<>", "<", "<=", ">", ">="])
    return chance.choice(
        [
            f"i {compared} {chance.randint(-2, 4)}",
            f"i {compared} j",
            f"j {compared} {chance.choice([-5, 0, 5, 1 << 33])}",
            f"s {compared} {chance.choice(['current_principal()', repr('a'), repr('B')])}",
            f"d {compared} {chance.choice(['0', '1.5', 'i'])}",
            "s LIKE 'a%'",
            "i BETWEEN 0 AND 2",
            "i IN (1, 2, -1)",
            "s NOT IN ('a', 'B')",
            "length(s) > 1",
            "coalesce(b, true)",
            "b",
            f"{chance.choice(['i', 's', 'b', 'd'])} IS {chance.choice(['', 'NOT '])}NULL",
            f"has_role('{chance.choice(['boss', 'nobody'])}')",
            "s IS DISTINCT FROM 'a'",
        ]
    )


def for_duckdb(expression: str, roles: set[str]) -> str:
    """Return an expression with what it says of the caller `ada` put in."""
    text = expression.replace("current_principal()", "'ada'")
    for role in ("boss", "nobody"):
        text = text.replace(f"has_role('{role}')", str(role in roles).lower())
    return text


@dataclass
class RandomPolicy:
    """Row filters and masks for everybody on the table `lake.<schema>.t`."""

    roles: set[str] = field(default_factory=set)
    filters: list[str] = field(default_factory=list)
    masks: dict[str, str] = field(default_factory=dict)

    def rules(self, schema: str) -> str:
        """Return an access file."""
        text = '[roles]\nboss = []\n[[grant]]\nto = "*"\nallow = ["select", "sql"]\ncatalogs = "lake"\n'
        for one in self.filters:
            text += f'[[filter]]\nfor="*"\ntables="lake.{schema}.t"\nrows="""{one}"""\n'
        for name, mask in self.masks.items():
            text += f'[[mask]]\nfor="*"\ncolumns="lake.{schema}.t.{name}"\nvalue="""{mask}"""\n'
        return text

    def shown(self, base: str) -> str:
        """Return DuckDB's query for what `ada` sees of the rows of a table."""
        kinds = ("BIGINT", "INTEGER", "VARCHAR", "DOUBLE", "BOOLEAN")
        columns = [
            f"CAST(({for_duckdb(self.masks.get(name, name), self.roles)}) AS {kind}) AS {name}"
            for name, kind in zip(COLUMNS.names, kinds, strict=True)
        ]
        where = " AND ".join(f"({for_duckdb(one, self.roles)})" for one in self.filters) or "true"
        return f"SELECT {', '.join(columns)} FROM {base} WHERE {where}"


def random_policy(chance: random.Random) -> RandomPolicy:
    """Return row filters and masks."""
    return RandomPolicy(
        {"boss"} if chance.random() < 0.5 else set(),
        [random_condition(chance) for _ in range(chance.randint(0, 2))],
        {name: chance.choice(options) for name, options in _MASKS.items() if chance.random() < 0.3},
    )
