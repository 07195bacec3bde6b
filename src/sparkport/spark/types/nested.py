"""Lists, structs, maps and unions: each made of the codecs of its children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.errors import InvalidRequestError
from sparkport.spark.types.codec import NOTHING, Codec, offset_values, offsets, validity
from sparkport.spark.types.storage import array_of, has_map, map_of, struct_of


def list_(kind: pa.DataType, item: Codec) -> Codec:
    """Return the codec of lists of any layout."""
    storage = pa.list_(item.storage)

    def to_storage(array: pa.Array) -> pa.Array:
        [(values, ranges)] = _ranges(array)
        return _list(storage, array, ranges.lengths, ranges.of(item.encode(values)))

    def from_storage(array: pa.Array) -> pa.Array:
        [(values, ranges)] = _ranges(array)
        items = ranges.of(values)
        if isinstance(kind, pa.FixedSizeListType):
            items = _spread(kind, array, ranges.lengths, items)
        return _list(kind, array, ranges.lengths, item.decode(items))

    return Codec(kind, array_of(item.spark), to_storage, from_storage, NOTHING, "an array")


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Where each list has its items; null lists have none."""

    starts: npt.NDArray[np.integer]
    lengths: npt.NDArray[np.integer]

    def of(self, stored: pa.Array) -> pa.Array:
        """Return the items of all lists one after the other.

        Only stored values are moved about: Arrow cannot take from all types.
        """
        places = np.repeat(self.starts - offset_values(self.lengths)[:-1], self.lengths)
        places += np.arange(len(places))
        if len(places) == len(stored) and (places == np.arange(len(places))).all():
            return stored
        return _take(stored, places)


def _ranges(array: pa.Array) -> list[tuple[pa.Array, _Ranges]]:
    """Return the items of lists, or the keys and the values of maps, with the ranges that are in use."""
    starts, lengths = _bounds(array)
    lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    used = lengths > 0
    first = int(starts[used].min()) if used.any() else 0
    last = int((starts + lengths)[used].max()) if used.any() else 0
    ranges = _Ranges(np.where(used, starts - first, 0), lengths)
    columns = [array.keys, array.items] if isinstance(array, pa.MapArray) else [array.values]
    return [(column.slice(first, last - first), ranges) for column in columns]


def _bounds(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    rows = len(array)
    if isinstance(array, pa.FixedSizeListArray):
        size = array.type.list_size
        return (array.offset + np.arange(rows)) * size, np.full(rows, size)
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = array.offsets.cast(pa.int64()).to_numpy()
    if isinstance(array, pa.ListViewArray | pa.LargeListViewArray):
        return starts, array.sizes.cast(pa.int64()).to_numpy()
    return starts[:-1], np.diff(starts)


def _list(kind: pa.DataType, like: pa.Array, lengths: npt.NDArray[np.integer], items: pa.Array) -> pa.Array:
    """Return lists, or maps, of these lengths that are null where `like` is."""
    if isinstance(kind, pa.FixedSizeListType):
        buffers = [validity(like)]
    elif isinstance(kind, pa.ListViewType | pa.LargeListViewType):
        width = pa.int32() if isinstance(kind, pa.ListViewType) else pa.int64()
        buffers = [validity(like), offsets(lengths, width), pa.array(lengths).cast(width).buffers()[1]]
    else:
        width = pa.int64() if isinstance(kind, pa.LargeListType) else pa.int32()
        buffers = [validity(like), offsets(lengths, width)]
    return pa.Array.from_buffers(kind, len(like), buffers, children=[items])


def _spread(kind: pa.DataType, like: pa.Array, lengths: npt.NDArray[np.integer], items: pa.Array) -> pa.Array:
    """Return stored items with nulls for the null lists, which have items too in a fixed layout."""
    present = like.is_valid().to_numpy(zero_copy_only=False)
    if (lengths[present] != kind.list_size).any():
        raise pa.ArrowInvalid(f"a list that has not {kind.list_size} items")
    if present.all():
        return items
    room = np.repeat(present, kind.list_size)
    return _take(items, np.where(room, np.cumsum(room) - 1, -1))


def _take(stored: pa.Array, places: npt.NDArray[np.integer]) -> pa.Array:
    """Return the stored values at these places, null where a place is negative."""
    return stored.take(pa.array(places, mask=places < 0))


def struct(kind: pa.DataType, members: Sequence[Codec]) -> Codec:
    """Return the codec of structs. One without fields, which Parquet has not, becomes a boolean."""
    names = [field.name for field in kind]
    _check_names(names)
    if not names:
        return _empty_struct(kind)
    spark = struct_of(zip(names, (member.spark for member in members), strict=True))
    storage = pa.struct([(name, member.storage) for name, member in zip(names, members, strict=True)])

    def to_storage(array: pa.Array) -> pa.Array:
        children = [member.encode(array.field(at)) for at, member in enumerate(members)]
        return pa.Array.from_buffers(storage, len(array), [validity(array)], children=children)

    def from_storage(array: pa.Array) -> pa.Array:
        _check_count(array, len(members))
        children = [member.decode(array.field(at)) for at, member in enumerate(members)]
        return pa.Array.from_buffers(kind, len(array), [validity(array)], children=children)

    return Codec(kind, spark, to_storage, from_storage, NOTHING, "a struct")


def _check_names(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) is not name:
            raise InvalidRequestError(
                f"a struct has the fields '{other}' and '{name}', which Spark cannot tell apart; rename one"
            )


def _check_count(array: pa.Array, expected: int) -> None:
    if array.type.num_fields != expected:
        raise pa.ArrowInvalid(f"a struct of {array.type.num_fields} fields in place of {expected}")


def _empty_struct(kind: pa.DataType) -> Codec:
    def to_storage(array: pa.Array) -> pa.Array:
        return pc.if_else(array.is_valid(), True, pa.scalar(None, pa.bool_()))

    def from_storage(array: pa.Array) -> pa.Array:
        return pa.Array.from_buffers(kind, len(array), [validity(array)], children=[])

    return Codec(kind, "boolean", to_storage, from_storage, NOTHING, "true, or null for a null struct")


def mapping(kind: pa.DataType, key: Codec, value: Codec) -> Codec:
    """Return the codec of maps. Spark copies keys that come twice, and refuses maps as keys."""
    exact_entries = pa.struct([kind.key_field, kind.item_field])
    stored_entries = pa.struct([pa.field("key", key.storage, nullable=False), ("value", value.storage)])
    if has_map(key.spark):
        spark = array_of(struct_of((("key", key.spark), ("value", value.spark))))
        stored_entries = pa.struct([("key", key.storage), ("value", value.storage)])
        storage, description = pa.list_(stored_entries), "an array of keys and values"
    else:
        spark = map_of(key.spark, value.spark)
        storage, description = pa.map_(key.storage, value.storage), "a map"

    def to_storage(array: pa.Array) -> pa.Array:
        (keys, ranges), (values, _) = _ranges(array)
        children = [ranges.of(key.encode(keys)), ranges.of(value.encode(values))]
        return _list(storage, array, ranges.lengths, _entries(stored_entries, children))

    def from_storage(array: pa.Array) -> pa.Array:
        if isinstance(array, pa.MapArray):
            (keys, ranges), (values, _) = _ranges(array)
            stored = [ranges.of(keys), ranges.of(values)]
        else:
            [(entries, ranges)] = _ranges(array)
            entries = ranges.of(entries)
            stored = [entries.field(0), entries.field(1)]
        children = [key.decode(stored[0]), value.decode(stored[1])]
        return _list(kind, array, ranges.lengths, _entries(exact_entries, children))

    return Codec(kind, spark, to_storage, from_storage, NOTHING, description)


def _entries(kind: pa.DataType, children: list[pa.Array]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(children[0]), [None], children=children)


def union(kind: pa.DataType, members: Sequence[Codec]) -> Codec:
    """Return the codec of unions: a tag, and a column per member that is null unless the tag is its own."""
    names = _member_names([field.name for field in kind])
    spark = struct_of([("tag", "byte"), *zip(names, (member.spark for member in members), strict=True)])
    storage = pa.struct(
        [("tag", pa.int8()), *((name, member.storage) for name, member in zip(names, members, strict=True))]
    )
    codes = list(kind.type_codes)

    def to_storage(array: pa.Array) -> pa.Array:
        tags, places = _selection(array)
        children = [pa.array(tags)]
        for at, (code, member) in enumerate(zip(codes, members, strict=True)):
            children.append(_take(member.encode(array.field(at)), np.where(tags == code, places, -1)))
        return pa.Array.from_buffers(storage, len(array), [None], children=children)

    def from_storage(array: pa.Array) -> pa.Array:
        _check_count(array, len(members) + 1)
        # A union cannot be null, a struct that somebody else writes can: then its first member is null.
        tags = array.field(0).cast(pa.int8()).fill_null(codes[0]).to_numpy()
        if not np.isin(tags, codes).all():
            raise pa.ArrowInvalid(f"a tag that is none of {codes}")
        children = [array.field(at + 1) for at in range(len(members))]
        buffers = [None, pa.py_buffer(tags)]
        if kind.mode == "dense":
            places = np.zeros(len(array), np.int32)
            for at, code in enumerate(codes):
                own = tags == code
                places[own] = np.arange(own.sum())
                children[at] = children[at].filter(pa.array(own))
            buffers.append(pa.py_buffer(places))
        decoded = [member.decode(child) for member, child in zip(members, children, strict=True)]
        return pa.Array.from_buffers(kind, len(array), buffers, children=decoded)

    return Codec(kind, spark, to_storage, from_storage, NOTHING, "the member's tag, and a field per member")


def _selection(array: pa.Array) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.integer]]:
    """Return each value's type code, and its place among the values of that member."""
    # pyarrow's own `type_codes` and `offsets` forget where a slice begins.
    buffers, rows = array.buffers(), slice(array.offset, array.offset + len(array))
    if not len(array):
        return np.zeros(0, np.int8), np.zeros(0, np.int32)
    tags = np.frombuffer(buffers[1], np.int8)[rows]
    if array.type.mode == "dense":
        return tags, np.frombuffer(buffers[2], np.int32)[rows]
    return tags, np.arange(len(array))


def _member_names(names: Sequence[str]) -> list[str]:
    """Return names for the members that Spark can tell apart, their own where possible."""
    found: list[str] = []
    taken_names = {"tag"}
    for at, name in enumerate(names):
        own = name if name and name.lower() not in taken_names else f"{name}_{at}"
        while own.lower() in taken_names:
            own += "_"
        taken_names.add(own.lower())
        found.append(own)
    return found
