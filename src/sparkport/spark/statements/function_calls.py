"""Statements that are functions of the catalog in other words: OPTIMIZE, VACUUM, DESCRIBE HISTORY."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import TableFunction
from sparkport.catalog.scan import ScanOptions
from sparkport.errors import NotImplementedByServerError


def run_function(
    call: Call, functions: Sequence[TableFunction], name: str, arguments: list[object]
) -> pa.Table:
    """Run the function of that name with so many parameters, and return its rows.

    Raises NotImplementedByServerError where the catalog has no functions.
    """
    fits = [f for f in functions if f.name == name and len(f.signature.parameters) == len(arguments)]
    if not fits:
        raise NotImplementedByServerError("functions of tables are switched off (--no-functions)")
    with fits[0].execute(call, arguments, ScanOptions()) as reader:
        return pa.Table.from_batches(call.checked(reader), reader.schema)
