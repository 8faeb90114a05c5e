"""The folder of the shipped chips, runs, programs, data and pins.

An installed package holds it inside; in a checkout it is the top-level folder `configs/`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "configs"

CONFIGS = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parents[1] / "configs"
CHIPS = CONFIGS / "chips"
RUNS = CONFIGS / "runs"
NETWORKS = CONFIGS / "networks"
PROGRAMS = CONFIGS / "programs"
VALIDATION = CONFIGS / "validation"


def chips_of_one_core() -> list[str]:
    """Return the names of the shipped chips on which graphs run: chip files without [[cores]]."""
    files = sorted(CHIPS.glob("*.toml"))
    return [file.stem for file in files if "cores" not in tomllib.loads(file.read_text("utf-8"))]
