"""Loading the user's own app or catalogs by `module:object`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from sparkport.app.application import App
from sparkport.catalog.tables import Catalog
from sparkport.errors import ConfigError
from sparkport.toolkit.builder import CatalogBuilder


def load_app(spec: str, name: str) -> App | dict[str, Catalog]:
    """Return the app or the catalogs of `module:object`.

    The object is an App; a catalog or a CatalogBuilder, served under `name`; a mapping
    of names to catalogs; or a function without parameters that returns one of these.
    """
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"--app is written module:object, not {spec!r}")
    loaded: object = _module(module_name)
    for part in attribute.split("."):
        if not hasattr(loaded, part):
            raise ConfigError(f"--app: module {module_name!r} has no {attribute!r}")
        loaded = getattr(loaded, part)
    if callable(loaded) and not isinstance(loaded, Catalog):
        loaded = _called(loaded, spec)
    return loaded if isinstance(loaded, App) else _catalogs(loaded, spec, name)


def _module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # What the module itself imports may be missing too.
        is_asked_for = f"{name}.".startswith(f"{error.name}.")
        reason = (
            f"module {name!r} does not exist" if is_asked_for else f"module {name!r} failed: {_shown(error)}"
        )
        raise ConfigError(f"--app: {reason}") from error
    except Exception as error:
        raise ConfigError(f"--app: module {name!r} failed: {_shown(error)}") from error


def _called(make: Callable[..., object], spec: str) -> object:
    """Return what a function of the user returns."""
    if not _is_called_without_arguments(make):
        raise ConfigError(f"--app: {spec} needs arguments; give a function that is called without any")
    try:
        return make()
    except Exception as error:
        raise ConfigError(f"--app: {spec} failed: {_shown(error)}") from error


def _is_called_without_arguments(make: Callable[..., object]) -> bool:
    try:
        signature = inspect.signature(make)
    except ValueError:  # some functions written in C have none
        return True
    try:
        signature.bind()
    except TypeError:
        return False
    return True


def _shown(error: Exception) -> str:
    """Return type and message in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _catalogs(loaded: object, spec: str, name: str) -> dict[str, Catalog]:
    if isinstance(loaded, CatalogBuilder):
        return {name: loaded.build()}
    if isinstance(loaded, Mapping):
        bad = [key for key, value in loaded.items() if not isinstance(value, Catalog)]
        if bad:
            raise ConfigError(f"--app: {spec} has a value under {bad[0]!r} that is not a catalog")
        nameless = [key for key in loaded if not isinstance(key, str) or not key]
        if nameless:
            raise ConfigError(f"--app: {spec} has a catalog under {nameless[0]!r}, which is not a name")
        return dict(loaded)
    if isinstance(loaded, Catalog):
        return {name: loaded}
    raise ConfigError(f"--app: {spec} is neither an App, a catalog nor a mapping of names to catalogs")
