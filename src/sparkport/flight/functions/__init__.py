"""Functions on the wire: listing, describing and calling them."""
