"""Putting the parts together: engines, front and the user's own code."""
