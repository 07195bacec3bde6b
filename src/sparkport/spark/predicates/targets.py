"""Where the values of a column are stored, and what their encoding keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

_EXTENSION = b"ARROW:extension:name"


@dataclass(frozen=True, slots=True)
class ColumnTarget:
    """A column, or a field of a struct column, as a predicate finds it in storage.

    `physical` is the name, or the path of names, in what is read. `encode` turns a value
    of the exact type (of a dictionary's value type) into the value that is stored, or
    says None where that value is not stored as it is. Equal values are stored equal with
    `equality`; with `order`, the storage type orders them as DuckDB orders the exact
    type. NULL is always stored as NULL. `fields` are the members of a struct that can be
    tested on their own, each under its full path.
    """

    physical: str | tuple[str, ...]
    storage: pa.DataType
    exact: pa.Field
    equality: bool
    order: bool
    encode: Callable[[pa.Scalar], pa.Scalar | None]
    fields: tuple[ColumnTarget, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names from the column to the field."""
        return (self.physical,) if isinstance(self.physical, str) else self.physical

    @property
    def kind(self) -> pa.DataType:
        """Return the type of the values, whatever their layout."""
        exact = self.exact.type
        return exact.value_type if isinstance(exact, pa.DictionaryType | pa.RunEndEncodedType) else exact

    @property
    def is_float(self) -> bool:
        """Return whether NaN can be stored."""
        return bool(pa.types.is_floating(self.storage))

    @property
    def is_disguised(self) -> bool:
        """Return whether the values are of an unregistered extension type, with an order of its own."""
        return _EXTENSION in (self.exact.metadata or {})

    def member(self, name: str) -> ColumnTarget | None:
        """Return the struct field of that name, in any case, if there is exactly one."""
        matches = [field for field in self.fields if field.exact.name.lower() == name.lower()]
        return matches[0] if len(matches) == 1 else None
