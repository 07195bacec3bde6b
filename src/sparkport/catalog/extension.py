"""Catalogs that take functions of the server's own among theirs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sparkport.catalog.functions import TableFunction
from sparkport.catalog.tables import Catalog


@runtime_checkable
class ExtensibleCatalog(Catalog, Protocol):
    """A catalog that has a schema for functions already."""

    @abstractmethod
    def add_functions(self, functions: Sequence[TableFunction]) -> None:
        """Offer functions beside the catalog's own; they replace others of the same names."""
        raise NotImplementedError
