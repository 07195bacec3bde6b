"""The types of SQL as Flight SQL's GetXdbcTypeInfo lists them, by the numbers of JDBC and ODBC."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sparkport.protocol.flight_sql.result_schemas import TYPE_INFO

_DATETIME = 9
_NULLABLE = 1
_SEARCHABLE_WITHOUT_LIKE, _SEARCHABLE = 2, 3
_BINARY_RADIX, _DECIMAL_RADIX = 2, 10


@dataclass(frozen=True, slots=True)
class _SqlType:
    """One type; `radix` is that of its size, `subcode` tells date, time and timestamp apart."""

    name: str
    data_type: int
    size: int | None = None
    quote: str | None = None
    parameters: tuple[str, ...] | None = None
    radix: int | None = None
    max_scale: int | None = None
    subcode: int | None = None
    is_text: bool = False

    def row(self) -> dict[str, object]:
        """Return the type as a row of the listing."""
        is_number = self.radix is not None
        return {
            "type_name": self.name,
            "data_type": self.data_type,
            "column_size": self.size,
            "literal_prefix": self.quote,
            "literal_suffix": self.quote and "'",
            "create_params": self.parameters,
            "nullable": _NULLABLE,
            "case_sensitive": self.is_text,
            "searchable": _SEARCHABLE if self.is_text else _SEARCHABLE_WITHOUT_LIKE,
            "unsigned_attribute": False if is_number else None,
            "fixed_prec_scale": False,
            "auto_increment": False if is_number else None,
            "local_type_name": self.name,
            "minimum_scale": None if self.max_scale is None else 0,
            "maximum_scale": self.max_scale,
            "sql_data_type": self.data_type if self.subcode is None else _DATETIME,
            "datetime_subcode": self.subcode,
            "num_prec_radix": self.radix,
            "interval_precision": None,
        }


_TYPES = (
    _SqlType("BOOLEAN", -7, 1),
    _SqlType("TINYINT", -6, 3, radix=_DECIMAL_RADIX, max_scale=0),
    _SqlType("BIGINT", -5, 19, radix=_DECIMAL_RADIX, max_scale=0),
    _SqlType("BINARY", -3, quote="X'"),
    _SqlType("DECIMAL", 3, 38, parameters=("precision", "scale"), radix=_DECIMAL_RADIX, max_scale=38),
    _SqlType("INTEGER", 4, 10, radix=_DECIMAL_RADIX, max_scale=0),
    _SqlType("SMALLINT", 5, 5, radix=_DECIMAL_RADIX, max_scale=0),
    _SqlType("FLOAT", 7, 24, radix=_BINARY_RADIX),
    _SqlType("DOUBLE", 8, 53, radix=_BINARY_RADIX),
    _SqlType("VARCHAR", 12, quote="'", is_text=True),
    _SqlType("DATE", 91, 10, quote="DATE '", subcode=1),
    _SqlType("TIMESTAMP", 93, 26, quote="TIMESTAMP '", subcode=3),
)


def type_info(data_type: int | None) -> pa.Table:
    """Return the types with a number, or all, in the order of their numbers and names."""
    rows = [each.row() for each in _TYPES if data_type in {None, each.data_type}]
    return pa.Table.from_pylist(rows, TYPE_INFO)
