"""The footers of Parquet files: what is in a file, and where.

Runs inside Spark's tasks, like `parquet`, and like it imports nothing else of the package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_MAGIC = b"PAR1"
_LENGTH_BYTES = 4
_END_BYTES = _LENGTH_BYTES + len(_MAGIC)
_FIRST_BYTES = 64 << 10

_ARROW_SCHEMA = b"ARROW:schema"
# Each key in a footer comes after these bytes: the kind of value and its length.
_KEY = b"\x18" + bytes([len(_ARROW_SCHEMA)]) + _ARROW_SCHEMA
_OTHER_KEY = _KEY.swapcase()


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a file: parsed, as bytes, and its columns as Arrow reads them."""

    metadata: pq.FileMetaData
    data: pa.Buffer
    arrow_schema: pa.Schema

    def fragment(self) -> Any:  # noqa: ANN401  (a type of the module below)
        """Return what Arrow judges row groups by. Nothing but the footer can be read from it."""
        import pyarrow.dataset as ds  # noqa: PLC0415  (with it comes pandas: the server starts sooner without)

        return ds.ParquetFileFormat().make_fragment(self.data)


def read_footer(source: pa.NativeFile) -> Footer:
    """Return the footer of a file, without views: Arrow can neither take nor filter them.

    Writers such as delta-rs ask for views in the Arrow schema that they leave in the file; to Parquet
    these columns are plain texts and bytes. Raises ArrowInvalid for what is no Parquet file.
    """
    data = _last_bytes(source)
    if data is None:
        metadata = pq.read_metadata(source)  # which says what is wrong
        raise pa.ArrowInvalid(f"a footer of {metadata.serialized_size} bytes could not be found")
    footer = _parsed(data)
    if any(_has_views(field.type) for field in footer.arrow_schema):
        return _without_arrow_schema(footer)
    return footer


def _last_bytes(source: pa.NativeFile) -> pa.Buffer | None:
    """Return the footer with what comes after it, None if there is none."""
    size = source.size()
    begin = max(0, size - _FIRST_BYTES)
    last = source.read_at(size - begin, begin)
    length = int.from_bytes(last[-_END_BYTES : -len(_MAGIC)], "little") + _END_BYTES
    if not last.endswith(_MAGIC) or length > size:
        return None
    if length > len(last):
        last = source.read_at(length, size - length)
    return pa.py_buffer(last[-length:])


def _parsed(data: pa.Buffer) -> Footer:
    metadata = pq.read_metadata(pa.BufferReader(data))
    return Footer(metadata, data, metadata.schema.to_arrow_schema())


def _without_arrow_schema(footer: Footer) -> Footer:
    """Return a footer in which the schema that the writer left has another key, so that nobody finds it."""
    data = footer.data.to_pybytes()
    at = data.rfind(_KEY)
    while at >= 0:
        # A text among the statistics may look like it.
        renamed = _parsed(pa.py_buffer(data[:at] + _OTHER_KEY + data[at + len(_KEY) :]))
        has_same_columns = renamed.metadata.schema.equals(footer.metadata.schema)
        if has_same_columns and _ARROW_SCHEMA not in (renamed.metadata.metadata or {}):
            return renamed
        at = data.rfind(_KEY, 0, at)
    raise pa.ArrowInvalid("the file has views, and their schema was not found in its footer")


def _has_views(kind: pa.DataType) -> bool:
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return True
    return any(_has_views(kind.field(index).type) for index in range(kind.num_fields))
