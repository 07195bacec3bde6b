"""Reading the footers of Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sparkport.spark.worker.footers import Footer, read_footer

KEY = "ARROW:schema"


def footer_of(path: Path) -> Footer:
    """Return the footer of a file."""
    with pa.OSFile(str(path)) as source:
        return read_footer(source)


def test_views_are_plain_texts_even_where_all_is_called_like_the_key_of_their_schema(tmp_path: Path) -> None:
    """Only the schema that the writer left gets another key: names, values and statistics stay."""
    table = pa.table({KEY: pa.array([KEY, KEY], pa.string_view()), "s": pa.array([None, KEY], pa.string())})
    table = table.replace_schema_metadata({"a": KEY, KEY + "s": KEY, "z": KEY})
    path = tmp_path / "file.parquet"
    pq.write_table(table, path)

    footer = footer_of(path)

    assert footer.arrow_schema.names == [KEY, "s"]
    assert footer.arrow_schema.types == [pa.string(), pa.string()]
    assert footer.metadata.row_group(0).column(0).statistics.min == KEY
    assert footer.metadata.metadata[b"a"] == footer.metadata.metadata[b"z"] == KEY.encode()
    found = pq.ParquetFile(path, metadata=footer.metadata).read()
    assert found.to_pylist() == table.to_pylist()


def test_footer_without_views_is_as_the_file_has_it(tmp_path: Path) -> None:
    """Its Arrow schema counts: other types than views are read as the writer meant them."""
    path = tmp_path / "file.parquet"
    kinds = {"large": pa.large_string(), "seconds": pa.duration("s")}
    table = pa.table({name: pa.nulls(1, kind) for name, kind in kinds.items()})
    pq.write_table(table, path)

    assert footer_of(path).arrow_schema.types == table.schema.types


def test_long_footer_is_read_whole(tmp_path: Path) -> None:
    """Of a file with many row groups the footer is longer than what is read at first."""
    path = tmp_path / "file.parquet"
    table = pa.table({"t": pa.array([f"{number:050d}" for number in range(2000)], pa.string_view())})
    pq.write_table(table, path, row_group_size=1)

    footer = footer_of(path)

    assert len(footer.data) > 64 << 10
    assert footer.metadata.num_row_groups == 2000
    possible = footer.fragment().subset(pc.field("t") == f"{1500:050d}", schema=footer.arrow_schema)
    assert [group.id for group in possible.row_groups] == [1500]


@pytest.mark.parametrize("damage", ["empty", "short", "magic", "length"])
def test_damaged_footer_is_an_error(tmp_path: Path, damage: str) -> None:
    """Whatever is wrong with the end of a file, Arrow's own error says so."""
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    data = path.read_bytes()
    damaged = {
        "empty": b"",
        "short": data[-6:],
        "magic": data[:-1] + b"2",
        "length": data[:-8] + b"\xff\xff\xff\x7f" + data[-4:],
    }
    path.write_bytes(damaged[damage])

    with pytest.raises(pa.ArrowInvalid, match=r"Parquet"):
        footer_of(path)
