"""Other names for the tables of a query, put into its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sparkport.spark.query.placeholders import TOKEN
from sparkport.spark.query.tables import NamedTable
from sparkport.spark.sql_names import quoted

# What may follow the name of a table and is no alias.
_CLAUSES = re.compile(
    r"(?i:ANTI|CLUSTER|CROSS|DISTRIBUTE|EXCEPT|FULL|GROUP|HAVING|INNER|INTERSECT|JOIN|LATERAL|LEFT|LIMIT|MINUS"
    r"|NATURAL|OFFSET|ON|ORDER|PIVOT|RIGHT|SEMI|SORT|TABLESAMPLE|UNION|UNPIVOT|USING|WATERMARK|WHERE|WINDOW)"
)
_TIME_TRAVEL = frozenset({"FOR", "SYSTEM_TIME", "SYSTEM_VERSION", "TIMESTAMP", "VERSION"})


def rewritten(
    sql: str, names: Sequence[NamedTable], replacement: Callable[[NamedTable], tuple[str, ...] | str | None]
) -> str:
    """Return a query with other names or queries for some of its tables; their names become aliases."""
    parts: list[str] = []
    end = 0
    for named in sorted(set(names), key=lambda named: named.start):
        other = replacement(named)
        if other is None:
            continue
        stop = named.stop + 1
        text = other if isinstance(other, str) else quoted(*other)
        keeps_name = not isinstance(other, str) and other[-1] == named.path[-1]
        if not keeps_name and not _has_alias(sql[stop:]):
            text += f" AS {quoted(named.path[-1])}"
        parts += [sql[end : named.start], text]
        end = stop
    return "".join([*parts, sql[end:]])


def _has_alias(rest: str) -> bool:
    """Return whether what follows a name is an alias, or something that an alias cannot stand before."""
    word = next((m.group() for m in TOKEN.finditer(rest) if not m.group().startswith(("--", "/*"))), "")
    if word.upper() in _TIME_TRAVEL:
        return True
    is_name = word[:1].isalnum() or word.startswith(("`", "_"))
    return is_name and not _CLAUSES.fullmatch(word)
