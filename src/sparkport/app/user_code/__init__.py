"""Functions and tables that users write in Python, as the catalog protocols want them."""
