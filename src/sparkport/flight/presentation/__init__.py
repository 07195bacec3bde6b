"""Tables and rows in the form that clients get."""
