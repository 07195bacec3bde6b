"""Functions as DuckDB sees them: the forms in which it may call each, and the types in a form."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types

from sparkport.catalog.functions import FunctionSignature
from sparkport.catalog.parameters import ANY, TABLE, Parameter, Special
from sparkport.errors import InvalidRequestError
from sparkport.protocol import msgpack, schemas
from sparkport.protocol.descriptor import FunctionKind

RESULT = "result"
_MAX_REPEATED = 8
_YES = "1"


@dataclass(frozen=True, slots=True)
class Form:
    """One number of positional parameters: for DuckDB none of them is optional.

    Parameters are in the order of the wire: positional, named, and the table last.
    """

    kind: FunctionKind
    parameters: tuple[Parameter, ...]
    return_type: pa.DataType | None = None

    def input_schema(self) -> pa.Schema:
        """Return the parameters as DuckDB sees them. Raises NoDuckDBTypeError."""
        takes_table = any(parameter.type is TABLE for parameter in self.parameters)
        return pa.schema(
            [_field(self.kind, parameter, by_name=not takes_table) for parameter in self.parameters]
        )

    def tag(self) -> str:
        """Return a short name that tells the form from all others of its function."""
        digest = hashlib.sha256(f"{self.kind}\0{self.return_type}\n".encode())
        for parameter in self.parameters:
            digest.update(f"{parameter.name}\0{parameter.type}\0{parameter.named}\n".encode())
        return digest.hexdigest()[:12]

    def values(self, row: pa.RecordBatch) -> tuple[list[pa.Array], dict[str, pa.Array]]:
        """Return the positional and the named values of a call, each as an array of one element."""
        expected = [parameter for parameter in self.parameters if parameter.type is not TABLE]
        if sorted(row.schema.names) != sorted(parameter.name for parameter in expected):
            names = ", ".join(parameter.name for parameter in expected) or "none"
            raise InvalidRequestError(f"the parameters of the function are: {names}")
        columns = [(parameter, row.column(parameter.name)) for parameter in expected]
        positional = [column for parameter, column in columns if not parameter.named]
        named = {
            parameter.name: column
            for parameter, column in columns
            if parameter.named and not column.null_count
        }
        return positional, named


def forms(kind: FunctionKind, signature: FunctionSignature) -> Iterator[Form]:
    """Yield the forms in which DuckDB may call a function.

    It knows no variadic functions of a server either: they get a few more forms. A function
    of a table has one form only, and beside the table no named parameters: there they are
    positional, and NULL means the default.
    """
    declared = signature.declared
    positional = [parameter for parameter in declared if not parameter.named and parameter.type is not TABLE]
    rest = [parameter for parameter in declared if parameter.named]
    if signature.takes_table:
        tables = [parameter for parameter in declared if parameter.type is TABLE]
        yield Form(kind, (*positional, *rest, *tables))
        return
    least = (
        len(positional)
        if kind is FunctionKind.SCALAR
        else sum(parameter.required for parameter in positional)
    )
    for count in range(least, len(positional) + 1):
        yield Form(kind, (*positional[:count], *rest), signature.return_type)
    if signature.variadic and positional:
        last = positional[-1]
        more = [replace(last, name=f"{last.name}_{number}") for number in range(2, _MAX_REPEATED + 1)]
        for count in range(1, len(more) + 1):
            yield Form(kind, (*positional, *more[:count], *rest), signature.return_type)


def stability(signature: FunctionSignature) -> bytes:
    """Return what the client wants to know of a scalar function."""
    return msgpack.encode({"stability": str(signature.stability)})


def result_schema(signature: FunctionSignature) -> pa.Schema:
    """Return the one column of a scalar function, as DuckDB sees it. Raises NoDuckDBTypeError."""
    return schemas.to_duckdb_types(pa.schema([(RESULT, signature.return_type)]))


def _field(kind: FunctionKind, parameter: Parameter, *, by_name: bool) -> pa.Field:
    metadata = {}
    shown = parameter.type
    if kind is FunctionKind.SCALAR and not isinstance(shown, Special):
        # DuckDB fills these with what it exports, whatever type was declared.
        shown = _exported(shown) or ANY
    if parameter.named and by_name:
        metadata["is_named_parameter"] = _YES
    if shown is ANY:
        metadata["is_any_type"] = _YES
    elif shown is TABLE:
        metadata["is_table_type"] = _YES
    arrow_type = pa.string() if isinstance(shown, Special) else shown
    field = pa.field(parameter.name, arrow_type, metadata=metadata or None)
    return schemas.to_duckdb_types(pa.schema([field])).field(0)


def _exported(data_type: pa.DataType) -> pa.DataType | None:
    """Return the type in which DuckDB exports values of a type, None where settings decide."""
    if isinstance(data_type, pa.BaseExtensionType) or types.is_boolean(data_type):
        return None
    if types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type):
        return pa.string()
    if types.is_date(data_type):
        return pa.date32()
    if types.is_time(data_type):
        return pa.time64("us")
    if types.is_timestamp(data_type):
        return data_type if data_type.tz is None else pa.timestamp("us", data_type.tz)
    if types.is_decimal(data_type):
        return pa.decimal128(data_type.precision, data_type.scale)
    if types.is_nested(data_type):
        return _exported_nested(data_type)
    if (
        types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_fixed_size_binary(data_type)
    ):
        return pa.binary()
    if (
        types.is_integer(data_type)
        or types.is_float32(data_type)
        or types.is_float64(data_type)
        or types.is_null(data_type)
    ):
        return data_type
    return None


def _exported_nested(data_type: pa.DataType) -> pa.DataType | None:
    if isinstance(data_type, pa.StructType):
        fields = [(field.name, _exported(field.type)) for field in data_type]
        return None if any(child is None for _, child in fields) else pa.struct(fields)
    if isinstance(data_type, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        child = _exported(data_type.value_type)
        size = data_type.list_size if isinstance(data_type, pa.FixedSizeListType) else -1
        return None if child is None else pa.list_(child, size)
    return None  # maps, unions and views: any type, brought to the declared one by the server
