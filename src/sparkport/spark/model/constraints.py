"""The constraints of a Delta table: sparkport's own in a property, and the CHECKs that Delta enforces."""

from __future__ import annotations

import json

from sparkport.catalog.tables import TableConstraints
from sparkport.spark.delta.features import CHECK_PROPERTY
from sparkport.spark.delta.log.actions import Metadata

CONSTRAINTS_KEY = "sparkport.constraints"
"""The table property that keeps, as JSON, what sparkport enforces on its own writes."""


def constraint_properties(constraints: TableConstraints) -> dict[str, str]:
    """Return the table properties that keep the constraints; none if there are none."""
    if constraints == TableConstraints():
        return {}
    parts = {
        "checks": constraints.checks,
        "primary_key": constraints.primary_key,
        "unique_keys": constraints.unique_keys,
    }
    return {CONSTRAINTS_KEY: json.dumps(parts)}


def own_constraints(metadata: Metadata) -> TableConstraints:
    """Return the constraints that sparkport enforces, in DuckDB's SQL."""
    text = metadata.configuration.get(CONSTRAINTS_KEY)
    parts = json.loads(text) if text else {}
    return TableConstraints(
        tuple(parts.get("checks", ())),
        tuple(parts.get("primary_key", ())),
        tuple(tuple(key) for key in parts.get("unique_keys", ())),
    )


def delta_checks(metadata: Metadata) -> tuple[str, ...]:
    """Return the CHECKs that Delta enforces on all writers, in Spark's SQL."""
    return tuple(text for key, text in metadata.configuration.items() if key.startswith(CHECK_PROPERTY))


def all_constraints(metadata: Metadata) -> TableConstraints:
    """Return all constraints: sparkport's in DuckDB's SQL, Delta's in Spark's SQL."""
    own = own_constraints(metadata)
    return TableConstraints(own.checks + delta_checks(metadata), own.primary_key, own.unique_keys)
