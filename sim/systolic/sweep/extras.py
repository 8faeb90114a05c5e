"""Packages that only sweeps need, imported when they are needed; one line names what to install."""

from __future__ import annotations

import importlib
from typing import Any

from systolic.errors import SystolicError

EXTRA_OF = {
    "pyarrow": "sweep",
    "duckdb": "sweep",
    "optuna": "sweep",
    "distributed": "cluster",
}


def needed(module: str, what: str) -> Any:
    """Return a module such as "pyarrow.parquet"; SystolicError says how to install its package.

    what: what needs it, for the message: "a store of results".
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        missing = error.name or package
        reason = "is not installed" if missing.split(".")[0] == package else f"lacks {missing}"
        raise SystolicError(
            f'{what} needs {package}, which {reason}: pip install "systolic[{EXTRA_OF[package]}]"'
        ) from None
