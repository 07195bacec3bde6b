"""The in-memory engine: the reference implementation, whose data is lost when the process ends."""

from sparkport.memory.catalog import MemoryCatalog

__all__ = ["MemoryCatalog"]
