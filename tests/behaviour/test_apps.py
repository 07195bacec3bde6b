"""A user's schemas beside an engine's, in one catalog that can do what the engine can."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport import App
from sparkport.catalog import (
    Call,
    CreateSchemaOptions,
    DropSchemaOptions,
    DynamicCatalog,
    TransactionalCatalog,
    VersionedCatalog,
)
from sparkport.errors import AlreadyExistsError, UnsupportedOperationError
from sparkport.toolkit import StaticCatalog
from tests.behaviour.engine import FullCatalog


def test_app_over_an_engine_has_the_schemas_and_abilities_of_both(
    catalog: FullCatalog, schema_name: str
) -> None:
    """DDL and transactions are the engine's; the app's schemas are found and stay as they are."""
    call, name = Call(), schema_name.upper()
    app = App(schema=f"{schema_name}_app")
    app.add_table(pa.table({"n": [1]}), name="own")
    app.table_function(columns={"n": int})(_count)
    both = app.over(catalog)
    assert isinstance(both, DynamicCatalog)
    assert isinstance(both, VersionedCatalog)
    assert isinstance(both, TransactionalCatalog)
    both.create_schema(call, schema_name, CreateSchemaOptions())
    own = both.schema(call, f"{name}_APP")
    assert own is not None

    assert [table.name for table in own.tables(call)] == ["own"]
    assert [function.name for function in own.table_functions(call)] == ["_count"]
    assert {schema_name, f"{schema_name}_app"} <= {schema.name for schema in both.schemas(call)}
    assert catalog.schema(call, schema_name) is not None
    assert both.catalog_version(call) == catalog.catalog_version(call)
    assert both.transactions is catalog.transactions
    with pytest.raises(AlreadyExistsError):
        both.create_schema(call, f"{schema_name}_app", CreateSchemaOptions())
    with pytest.raises(UnsupportedOperationError):
        both.drop_schema(call, f"{schema_name}_app", DropSchemaOptions())
    assert both.drop_schema(call, schema_name, DropSchemaOptions()) == 0
    assert not isinstance(app.over(StaticCatalog({})), DynamicCatalog)


def _count(n: int) -> list[tuple[int]]:
    return [(number,) for number in range(n)]
