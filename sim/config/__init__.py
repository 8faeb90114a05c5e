"""Configuration: TOML chip and run files -> validated, frozen values, or one clear line."""

from sim.config.chip_file import load_chip
from sim.config.dump import to_toml
from sim.config.load import Recorded, RunConfig, load_recorded, load_run
from sim.config.override import Override
from sim.config.run_file import CompileTable, RunFile, SweepTable, WorkloadTable
from sim.config.schema import schema
from sim.config.sweep import SweepPoint, expand

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
