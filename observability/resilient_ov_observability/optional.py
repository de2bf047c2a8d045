"""Imports a third-party library that memory can do without.

Rule: a library that is missing or broken is None, never an error.
"""

import importlib
from types import ModuleType


def optional(name: str) -> ModuleType | None:
    """Return the module, or None when it cannot be imported for whatever reason."""
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001 - a half-installed library can raise anything on import
        return None
