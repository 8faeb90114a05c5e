"""Where the shipped configurations lie: chips, runs, programs, data and pins, for every reader.

In an installed package they lie inside it; in a checkout they are the top-level folder `configs/`.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "configs"

CONFIGS = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parents[1] / "configs"
CHIPS = CONFIGS / "chips"
RUNS = CONFIGS / "runs"
