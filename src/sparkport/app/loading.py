"""Loading the user's own app or catalogs by `module:object`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

from sparkport.app.application import App
from sparkport.catalog.builder import CatalogBuilder
from sparkport.catalog.tables import Catalog
from sparkport.config import ConfigError


def load_app(spec: str, name: str) -> App | dict[str, Catalog]:
    """Return the app or the catalogs of `module:object`.

    The object is an App; a catalog or a CatalogBuilder, served under `name`; a mapping
    of names to catalogs; or a function without parameters that returns one of these.
    """
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"--app is written module:object, not {spec!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0]:
            raise
        raise ConfigError(f"--app: there is no module {module_name!r}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"--app: module {module_name!r} has no {attribute!r}")
        found = getattr(found, part)
    found = found() if callable(found) and not isinstance(found, Catalog) else found
    return found if isinstance(found, App) else _catalogs(found, spec, name)


def _catalogs(found: object, spec: str, name: str) -> dict[str, Catalog]:
    if isinstance(found, CatalogBuilder):
        return {name: found.build()}
    if isinstance(found, Mapping):
        bad = [key for key, value in found.items() if not isinstance(value, Catalog)]
        if bad:
            raise ConfigError(f"--app: {spec} has something under {bad[0]!r} that is not a catalog")
        nameless = [key for key in found if not isinstance(key, str) or not key]
        if nameless:
            raise ConfigError(f"--app: {spec} has a catalog under {nameless[0]!r}, which is not a name")
        return dict(found)
    if isinstance(found, Catalog):
        return {name: found}
    raise ConfigError(f"--app: {spec} is neither an App, a catalog nor a mapping of names to catalogs")
