"""A finished run as exports are given it: records, and the names of what they number."""

from __future__ import annotations

from collections.abc import Iterator

from systolic.critical_path.causes import Causes
from systolic.machine.array_shape import grid_shape
from systolic.run.explanation import lives_of
from systolic.run.result import Result
from systolic.trace.exports.observed import Arrow, Observed
from systolic.trace.passes import GridShape

TENSOR_PARTS = {
    "pe_array": {
        "LoadWeights": "Tensor", "LoadTile": "Tensor", "LoadDoubleRow": "Tensor",
        "LoadMx": "Tensor", "MatMulMx": "TensorMatrix",
        "MatMul": "TensorMatrix", "MatMulTile": "TensorMatrix", "MatMulDoubleRow": "TensorMatrix",
        "PassThrough": "TensorMatrix",
    }
}  # fmt: skip
"""The tracks of a NeuronCore's profiler: LDWEIGHTS are its Tensor, MATMUL its TensorMatrix."""


def observed(result: Result) -> Observed:
    """Return what was observed in a run; it may have been for times only."""
    compiled, program = result.compiled, result.program
    return Observed(
        run=result.summary["run"],
        trace=result.trace,
        ticks_mhz=result.chip.ticks_mhz,
        names=[type(each).__name__ for each in program.instructions],
        operations=compiled.synchronised.layers if compiled else None,
        semaphores=program.semaphores,
        arrows=lambda: _arrows(result),
        shapes=_shapes(result),
        parts=TENSOR_PARTS if result.chip.metrics else {},
    )


def _shapes(result: Result) -> dict[str, GridShape]:
    """Return the shapes of all arrays, by name."""
    if result.several is None:
        return {result.trace.array: result.trace.grid.shape}
    chips = enumerate(result.several.chip.core_chips)
    return {f"core{number}.pe_array": grid_shape(chip) for number, chip in chips}


def _arrows(result: Result) -> Iterator[Arrow]:
    """Yield, for each wait, the post that satisfied it, in the cycle in which it was made."""
    lives = lives_of(result)
    posts = Causes(lives).posts
    for index, times in lives.times.items():
        for wait in lives.instruction(index).waits:
            if wait.value > 0:
                point = posts[wait.semaphore][wait.value - 1].point
                posted = point.tick - lives.period(point.instruction)
                yield Arrow(point.instruction, posted, index, times.start)
