"""Changes of rows by their ids, as Spark statements: each is one Delta commit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from sparkport.spark.names import quoted, staged_name

MOST_LISTED = 1000
"""Up to how many ids are written into a statement; more are read from a staged file."""

Ids = npt.NDArray[np.int64]


def update(root: str, staged: str, id_name: str, names: list[str], ids: Ids, session: SparkSession) -> None:
    """Set columns of the rows with these ids to the values that are staged for them."""
    settings = ", ".join(f"t.{quoted(name)} = s.{quoted(staged_name(name))}" for name in names)
    session.sql(_merge(root, staged, id_name, ids, f"UPDATE SET {settings}")).collect()


def delete(root: str, staged: str, id_name: str, ids: Ids, session: SparkSession) -> None:
    """Remove the rows with these ids."""
    if len(ids) > MOST_LISTED:
        session.sql(_merge(root, staged, id_name, ids, "DELETE")).collect()
        return
    listed = ", ".join(str(number) for number in ids.tolist())
    where = f"WHERE {quoted(id_name)} IN ({listed})"
    session.sql(f"DELETE FROM delta.{quoted(root)} {where}").collect()  # noqa: S608  (names are quoted)


def _merge(root: str, staged: str, id_name: str, ids: Ids, action: str) -> str:
    target, source = f"t.{quoted(id_name)}", f"s.{quoted(staged_name(id_name))}"
    # The range lets Delta skip files: it does not derive one from the staged ids.
    where = f"{target} = {source} AND {target} BETWEEN {ids.min()} AND {ids.max()}"
    return (
        f"MERGE INTO delta.{quoted(root)} AS t USING parquet.{quoted(staged)} AS s"
        f" ON {where} WHEN MATCHED THEN {action}"
    )
