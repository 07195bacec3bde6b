"""Who may do what: grants, and catalogs as a caller may see them."""

from sparkport.access.policies import Policies

__all__ = ["Policies"]
