"""Configuration: TOML chip and run files become validated, frozen values, or one clear error."""

from typing import TYPE_CHECKING

from systolic.config.chip_file import load_chip
from systolic.config.compile_table import CompileTable
from systolic.config.load import Recorded, RunConfig, load_recorded, load_run
from systolic.config.override import Override
from systolic.config.run_file import RunFile, SweepTable, WorkloadTable
from systolic.config.schema import schema
from systolic.lazy import loader as _loader

if TYPE_CHECKING:
    from systolic.config.dump import to_toml
    from systolic.config.sweep import SweepPoint, expand

# A single run neither writes a chip file nor has points of a sweep.
LAZY = {"dump": "to_toml", "sweep": "SweepPoint expand"}
__getattr__ = _loader(__name__, LAZY)

__all__ = [
    "CompileTable",
    "Override",
    "Recorded",
    "RunConfig",
    "RunFile",
    "SweepPoint",
    "SweepTable",
    "WorkloadTable",
    "expand",
    "load_chip",
    "load_recorded",
    "load_run",
    "schema",
    "to_toml",
]
