"""The command line: one module for each command."""

from sparkport.cli.main import app, main

__all__ = ["app", "main"]
