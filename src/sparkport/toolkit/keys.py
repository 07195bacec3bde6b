"""Keys of tables: finding two rows of the same key, whatever the type of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.arrow.conform import plain_column
from sparkport.catalog.tables import TableConstraints
from sparkport.errors import ConstraintViolationError

_EXAMPLE_LENGTH = 60
_PLACE = "place"


@dataclass(frozen=True, slots=True)
class Key:
    """A PRIMARY KEY or UNIQUE constraint."""

    kind: str
    columns: tuple[str, ...]

    def violated(self, table: str, row: pa.Table) -> ConstraintViolationError:
        """Return the error for a row whose key is taken."""
        return ConstraintViolationError(
            self.kind, table, column=", ".join(self.columns), example=example(row, self.columns)
        )


def keys_of(constraints: TableConstraints) -> list[Key]:
    """Return all keys of a table."""
    keys = [Key("UNIQUE", columns) for columns in constraints.unique_keys]
    if constraints.primary_key:
        keys.append(Key("PRIMARY KEY", constraints.primary_key))
    return keys


def check_keys(table: str, keys: Iterable[Key], rows: pa.Table) -> None:
    """Raise ConstraintViolationError if a key occurs twice among the rows."""
    for key in keys:
        KeySet(table, key, rows)


class KeySet:
    """The keys of some rows, none of them twice; keys with a NULL are equal to none."""

    def __init__(self, table: str, key: Key, rows: pa.Table) -> None:
        self.key = key
        self._table = table
        self._known = _comparable(rows, key.columns)
        names = self._known.column_names[:-1]
        groups = self._known.group_by(names).aggregate([(_PLACE, "count"), (_PLACE, "max")])
        twice = groups.filter(pc.greater(groups[f"{_PLACE}_count"], 1))
        if len(twice):
            raise key.violated(table, rows.slice(pc.min(twice[f"{_PLACE}_max"]).as_py(), 1))

    def check_apart(self, rows: pa.Table) -> None:
        """Raise ConstraintViolationError if one of the keys is among the rows too."""
        others = _comparable(rows, self.key.columns)
        names = others.column_names[:-1]
        same = others.join(self._known.select(names), names, join_type="left semi", use_threads=False)
        if len(same):
            raise self.key.violated(self._table, rows.slice(pc.min(same[_PLACE]).as_py(), 1))


def example(row: pa.Table, names: Iterable[str]) -> str:
    """Return a row as a few words for a message."""
    text = ", ".join(f"{name}={_shown(row[name][0])}" for name in names)
    return text if len(text) <= _EXAMPLE_LENGTH else text[: _EXAMPLE_LENGTH - 3] + "..."


def _comparable(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the keys that are not NULL in types that Arrow can group by, and the place of each."""
    columns = [_canonical(plain_column(rows[name])) for name in names]
    places = pa.array(np.arange(len(rows)))
    return pa.table([*columns, places], [*map(str, range(len(columns))), _PLACE]).drop_null()


def _canonical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_floating(kind):
        # As in SQL, both zeros are equal, and so is every NaN.
        numbers = pc.add(column.cast(pa.float64()), 0.0)
        return pc.if_else(pc.is_nan(numbers), float("nan"), numbers)
    if pa.types.is_string(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_null(kind):
        # Arrow cannot group by these.
        texts = (None if value is None else repr(value) for value in column.to_pylist())
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    return column


def _shown(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "NULL"
    try:
        shown = value.as_py()
        return repr(shown) if isinstance(shown, str | bytes) else str(shown)
    except (ValueError, OverflowError):
        # Python has neither nanoseconds nor DuckDB's infinite dates.
        return str(value.cast(pa.string()).as_py())
