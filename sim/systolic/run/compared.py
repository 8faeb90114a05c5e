"""Tensors of another program beside a run's: which operation is the first that differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from systolic.arrays import Array
from systolic.config import RunConfig
from systolic.errors import WorkloadError, listed, shortened
from systolic.reading import check_file
from systolic.workload import Rules, reference_values

NEAR = 1e-5
"""Tensors differ if elements are farther apart than this part of the largest one."""


def compared(config: RunConfig, path: Path) -> str:
    """Return one line: the first operation that differs from a file, by how much, and where.

    path: an .npz file of tensors under the names that the table of operations has.

    Raises:
        WorkloadError: the file cannot be read, or names no tensor of the run.

    """
    given = _arrays(path)
    graph = config.graph
    made = [op for op in graph.operations if op.output in given]
    if not made:
        names = listed(op.output for op in graph.operations)
        raise WorkloadError(f"{path}: holds no result of an operation of this run ({names})")
    known = reference_values(graph, config.load_inputs(), Rules(lambda length: (0, length)))
    before = "nothing before it is in the file"
    for op in made:
        found, wanted = known[op.output], given[op.output]
        if found.shape != wanted.shape:
            return (
                f'first difference: "{op.name}" ({op.kind}) is {list(found.shape)}, '
                f"{path} has {list(wanted.shape)}; {before}"
            )
        difference, at = apart(found, wanted)
        if difference > NEAR:
            return (
                f'first difference: "{op.name}" ({op.kind}), {difference:.2g} of the largest '
                f"element, at {list(at)}: {found[at]} here, {wanted[at]} in {path}; {before}"
            )
        before = f'"{op.name}" ({op.kind}) agrees'
    return f"{len(made)} tensors of {path} agree"


def _arrays(path: Path) -> dict[str, Array]:
    check_file(path, WorkloadError)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # zipfile and numpy fail in a dozen ways on a bad file
        reason = shortened(str(error) or type(error).__name__, 200)
        raise WorkloadError(f"{path}: is not an .npz file numpy can read ({reason})") from None


def apart(found: Array, wanted: Array) -> tuple[float, tuple[int, ...]]:
    """Return the largest difference, relative to the largest finite wanted element, and its place.

    Both have the same dimensions. A NaN that the other does not have is infinitely far.
    """
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(one - other))
    apart = np.where(np.isnan(apart), np.inf, apart)
    at = np.unravel_index(int(np.argmax(apart)), apart.shape) if apart.size else ()
    largest = np.max(np.abs(other[np.isfinite(other)]), initial=0.0)
    return float(np.max(apart, initial=0.0) / max(largest, 1e-30)), tuple(map(int, at))
