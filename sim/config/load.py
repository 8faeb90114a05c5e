"""Loading a run: run file and chip file, overrides, and the checks that need more than one table.

The result is one frozen RunConfig; everything in it is known to be well formed. Whether the work
fits the chip is for the compiler to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from sim.config.chip_file import find_chip, load_chip
from sim.config.explain import explain
from sim.config.override import Override, apply, origin_of
from sim.config.run_file import CompileTable, EngineKind, RunFile, SweepTable, WorkloadTable
from sim.config.toml_file import read_toml
from sim.errors import ConfigError, SystolicError
from sim.hw.datatypes import DATA_TYPES
from sim.hw.spec import Chip, Spec
from sim.layout import Shape
from sim.workload import DataSource, Transpose, load_data, transpose

T = TypeVar("T")
