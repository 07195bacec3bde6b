"""Row ids: handing them out, and finding rows by them."""
