"""Names of a package that are loaded when they are first asked for, so that a start stays short.

A package lists its public names twice: as imports under TYPE_CHECKING, for type checkers and
editors, and in a table from module to names, which is what runs. `tests/test_architecture.py`
holds one against the other.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def loader(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Args:
        package: the package's `__name__`.
        homes: by module below the package, the names it holds, a blank between two.

    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, found)  # so that the next look needs no call
        return found

    return load
