"""Whether rows are as a transaction has seen them, also after an ALTER."""

from __future__ import annotations

import bisect
import functools
import itertools

import numpy as np
import pyarrow as pa

from sparkport.arrow.taking import take_rows
from sparkport.catalog.call import Call
from sparkport.spark.commit.conflicts import Basis
from sparkport.spark.model.columns import TableColumn, table_columns
from sparkport.spark.row_ids.ids import Ids
from sparkport.spark.versions import TableVersions


def is_untouched(call: Call, table: TableVersions, ids: Ids, basis: Basis, newest: int) -> bool:
    """Tell whether nobody else has changed the rows from the basis of a statement up to a version.

    An ALTER changes no rows, whether it writes them again or not: what it has done to a column is
    left out. So are rows that were added meanwhile: nobody can have read them before.
    """
    return all(
        before == after or _is_same(call, table, ids, before, after)
        for start, end in basis.gaps(newest)
        if table.is_changed_between(start, end)
        for before, after in itertools.pairwise(_stops(table, start, end))
    )


def _stops(table: TableVersions, seen: int, newest: int) -> list[int]:
    """Return the two versions and, between them, the last before and the first after each ALTER."""
    stops = [seen]
    while _is_altered(table, stops[-1], newest):
        between = range(stops[-1] + 1, newest)
        found = bisect.bisect_left(between, 1, key=functools.partial(_is_altered, table, stops[-1]))
        altered = stops[-1] + 1 + found
        stops += [altered - 1, altered]
    return [*stops, newest]


def _is_altered(table: TableVersions, before: int, after: int) -> bool:
    return [_identity(column) for column in _columns(table, before)] != [
        _identity(column) for column in _columns(table, after)
    ]


def _columns(table: TableVersions, version: int) -> tuple[TableColumn, ...]:
    return table_columns(table.header(version).metadata)


def _identity(column: TableColumn) -> tuple[str, pa.DataType]:
    """Return what stays when a column gets another name."""
    return column.physical.name, column.exact.type


def _is_same(call: Call, table: TableVersions, ids: Ids, before: int, after: int) -> bool:
    """Tell whether rows are the same in two versions, as far as both have the same columns."""
    *old, old_id = _columns(table, before)
    *new, new_id = _columns(table, after)
    known = {_identity(column): column.exact.name for column in new}
    shared = [(column.exact.name, known[_identity(column)]) for column in old if _identity(column) in known]
    old_rows = table.at_version(before).rows_by_id(call, ids)
    new_rows = table.at_version(after).rows_by_id(call, ids)
    read = old_rows.column(old_id.exact.name).to_numpy()
    one = _sorted_by_ids(old_rows, [*(name for name, _ in shared), old_id.exact.name], read)
    other = _sorted_by_ids(new_rows, [*(name for _, name in shared), new_id.exact.name], read)
    # NaN is not equal to itself, but to its bytes.
    return bool(one.equals(other) or one.serialize() == other.serialize())


def _sorted_by_ids(rows: pa.Table, names: list[str], wanted: Ids) -> pa.RecordBatch:
    """Return those of the rows that are wanted by their ids, which are the last of the named columns."""
    ids = rows.column(names[-1]).to_numpy()
    order = np.argsort(ids)
    batch = take_rows(rows.select(names), order[np.isin(ids[order], wanted)])
    return pa.RecordBatch.from_arrays(batch.columns, [str(place) for place in range(len(names))])
