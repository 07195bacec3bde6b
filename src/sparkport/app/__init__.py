"""Putting the parts together: engines, front and the user's own code."""

from sparkport.app.application import App
from sparkport.app.server import Server

__all__ = ["App", "Server"]
