"""The in-memory engine: complete, correct, and gone when the process ends."""

from sparkport.memory.catalog import MemoryCatalog

__all__ = ["MemoryCatalog"]
