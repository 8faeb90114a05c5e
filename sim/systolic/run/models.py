"""A model file as work for `systolic.run`: its chip, and its inputs by name or in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from systolic.arrays import Array
from systolic.config import Override, RunConfig, load_run
from systolic.errors import WorkloadError, listed, perhaps, shortened
from systolic.workload.data.sources import fitted
from systolic.workload.importers.given import ModelGiven
from systolic.workload.importers.models import read_model

ANY_CHIP = "ideal_4x4"
"""Stands in a run until the chip of a Python caller takes its place."""


ModelArrays: TypeAlias = "Mapping[str, Array] | Sequence[Array]"


def model_run(path: Path, chip: str | None, given: ModelArrays | None) -> RunConfig:
    """Return the run of a model. chip: the name or file of one; None: the caller has a `Chip`.

    given: arrays of inputs, which say open sizes, and are constants where shapes depend on them.
    """
    return load_run(
        path, [Override(("chip",), chip or ANY_CHIP, "run", Path())], by_name(given or {})
    )


def by_name(given: ModelArrays) -> dict[str, Array]:
    """Return arrays by the names of inputs, or by their numbers as texts."""
    pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
    return {str(key): array for key, array in pairs}


def model_inputs(config: RunConfig, given: ModelArrays) -> dict[str, Array]:
    """Return the inputs of a model's graph: its constants, and what the caller gives.

    given: arrays by name, by number, or a list in the order of the file. Inputs that no operation
    takes are left out.

    Raises:
        WorkloadError: an input is missing, is not the model's, or is given twice.

    """
    arrays = by_name(given)
    imported = read_model(config.path, ModelGiven(values=arrays))
    names = imported.names
    found: dict[str, Array] = {}
    for key, array in arrays.items():
        name = key
        if name not in names and name.isdecimal() and int(name) < len(names):
            name = names[int(name)]
        if name not in names:
            text = f'{config.path}: has no input "{shortened(name)}" (known: {listed(names)})'
            raise WorkloadError(f"{text}{perhaps(name, names)}")
        if name in found:
            raise WorkloadError(f'{config.path}: input "{shortened(name)}" is given twice')
        found[name] = array
    missing = [name for name in names if name in config.graph.inputs and name not in found]
    if missing:
        raise WorkloadError(f"{config.path}: inputs are missing: {listed(missing)}")
    taken = {
        name: _fitted(config, name, np.asarray(found[name]))
        for name in names
        if name in config.graph.inputs
    }
    return {**imported.constants, **taken}


def _fitted(config: RunConfig, name: str, array: Array) -> Array:
    """Return an array in the type of an input, such as int64 as s32, as data files are taken."""
    shape = config.graph.shape(name)
    if array.shape != shape.dims:
        return array
    return fitted(f'{config.path}: input "{shortened(name)}"', array, shape)
