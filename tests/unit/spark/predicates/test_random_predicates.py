"""Random SQL predicates, evaluated by DuckDB and by the translations for Parquet and the Delta log."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sparkport.spark.predicates import Bounds, arrow_expression, may_match, translate

from .random_sql import RandomSql
from .samples import TARGETS, Rows, connect, duckdb_ids, make_rows, pushed

SEEDS = range(12)
PREDICATES_PER_SEED = 220
BLOCKS = 12
ROWS_PER_BLOCK = 4


def bounds_of(array: pa.Array) -> Bounds:
    """Return the bounds of stored values as writers of statistics do: without NaN."""
    kind = array.type
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
    extremes: tuple[pa.Scalar | None, pa.Scalar | None] = (None, None)
    if not pa.types.is_nested(kind):
        found = pc.min_max(array)
        extremes = found["min"], found["max"]
    return Bounds(*extremes)


def block_bounds(batch: pa.RecordBatch) -> dict[tuple[str, ...], Bounds]:
    """Return what a log knows of one file."""
    arrays: dict[tuple[str, ...], pa.Array] = {(name,): batch.column(name) for name in batch.schema.names}
    members = batch.column("col-st").flatten()
    arrays |= {("col-st", "a"): members[0], ("col-st", "b"): members[1]}
    known: dict[tuple[str, ...], Bounds] = {}
    for path, array in arrays.items():
        extremes = bounds_of(array)
        known[path] = Bounds(extremes.minimum, extremes.maximum, array.null_count, len(array))
    return known


class Trial:
    """One set of rows, in memory, in a file of several row groups, and as files with bounds."""

    def __init__(self, rows: Rows, path: Path) -> None:
        self.stored = rows.stored
        pq.write_table(pa.Table.from_batches([rows.stored]), path, row_group_size=ROWS_PER_BLOCK)
        self.dataset = ds.dataset(path, schema=rows.stored.schema)
        blocks = [rows.stored.slice(start, ROWS_PER_BLOCK) for start in range(0, len(rows.stored), 4)]
        self.files = [(block, block_bounds(block)) for block in blocks]

    def in_memory(self, expression: pc.Expression | None) -> set[int]:
        batch = self.stored if expression is None else self.stored.filter(expression)
        return set(batch.column("id").to_pylist())

    def in_parquet(self, expression: pc.Expression | None) -> set[int]:
        return set(self.dataset.to_table(columns=["id"], filter=expression)["id"].to_pylist())


@pytest.mark.parametrize("seed", SEEDS)
def test_no_translation_loses_a_row_of_duckdb(seed: int, tmp_path: Path) -> None:
    """Filters and skipping keep DuckDB's rows, and plain filters keep no other."""
    r = random.Random(seed)
    rows = make_rows(r, BLOCKS, ROWS_PER_BLOCK)
    connection, sql, trial = connect(rows.exact), RandomSql(r), Trial(rows, tmp_path / "t.parquet")
    compared = exact = filtered = skipped = 0
    for number in range(PREDICATES_PER_SEED):
        plain = number % 2 == 0
        predicate = sql.boolean(r.randrange(3), plain=plain)
        expression = pushed(connection, predicate, combined=number % 4 < 2)
        expected = duckdb_ids(connection, predicate)
        if expression is None or expected is None:
            continue
        compared += 1
        arrow = arrow_expression(expression, TARGETS)
        arrow = pickle.loads(pickle.dumps(arrow))
        kept = trial.in_memory(arrow)
        condition = translate(expression, TARGETS)
        files = [block for block, known in trial.files if may_match(condition, known.__getitem__)]
        scanned = {row for block in files for row in block.column("id").to_pylist()}

        assert expected <= kept, f"lost {expected - kept} of {predicate}"
        assert expected <= trial.in_parquet(arrow), f"row groups lost of {predicate}"
        assert expected <= scanned, f"files lost of {predicate}"
        if plain:
            exact += 1
            assert expected == kept, f"kept {kept - expected} of {predicate}"
        filtered += arrow is not None
        skipped += BLOCKS - len(files)

    assert compared >= 150
    assert exact >= 75
    assert filtered >= 110
    assert skipped >= 500
