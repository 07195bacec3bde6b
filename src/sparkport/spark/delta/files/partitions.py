"""Part rows by the values of partition columns, and write these as the log has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkport.arrow.taking import take_rows
from sparkport.errors import InvalidRequestError
from sparkport.spark.delta.files.layout import Layout
from sparkport.spark.delta.log.spark_fields import SparkType

PartitionValues = Mapping[str, str | None]
"""The text of each partition column's value, by its name in files."""

_WORDS = frozenset(
    {"boolean", "byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz"}
)


def can_part_by(spark_type: SparkType) -> bool:
    """Return whether all writers give the values of a type the same text."""
    return isinstance(spark_type, str) and (spark_type in _WORDS or spark_type.startswith("decimal"))


def parted(layout: Layout, rows: pa.Table) -> Iterator[tuple[PartitionValues, pa.Table]]:
    """Yield the rows of each partition. Raises InvalidRequestError for a value without a text."""
    if not layout.partitions:
        yield {}, rows
        return
    coded = [_coded(rows.column(column.name)) for column in layout.partitions]
    found, numbers = np.unique(np.stack([codes for _, codes in coded], axis=1), axis=0, return_inverse=True)
    names = [column.name_in_files for column in layout.partitions]
    order = np.argsort(numbers.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(numbers.ravel(), minlength=len(found)))
    for codes, places in zip(found, np.split(order, ends[:-1]), strict=True):
        texts = [known[code] for (known, _), code in zip(coded, codes, strict=True)]
        values = dict(zip(names, texts, strict=True))
        yield values, rows if len(found) == 1 else pa.Table.from_batches([take_rows(rows, places)])


def _coded(column: pa.ChunkedArray) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """Return the distinct texts of values, and for each value the number of its text."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks)
    texts = [_text(value, column.type) for value in encoded.dictionary]
    known = sorted(set(texts) - {None}, key=str)
    numbers: dict[str | None, int] = {text: at for at, text in enumerate([*known, None])}
    of_values = np.array([*(numbers[text] for text in texts), numbers[None]], np.int64)
    places = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return [*known, None], of_values[places]


def _text(value: pa.Scalar, kind: pa.DataType) -> str | None:
    """Return a value as the log has it: to Delta an empty text is NULL."""
    try:
        found = value.as_py()
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError("the values of a partition must be of the years 1 to 9999") from error
    match found:
        case bool():
            return str(found).lower()
        case int():
            return str(found)
        case Decimal():
            return format(found, "f")
        case datetime() if kind.tz:
            return found.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case datetime():
            return found.isoformat(" ", timespec="microseconds")
        case date():
            return found.isoformat()
        case text:
            return text or None
