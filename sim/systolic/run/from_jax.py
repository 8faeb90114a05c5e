"""A function of JAX on the machine: `systolic.from_jax(f, *args, chip=...)`.

JAX lowers the function, HLO text is read, run, and compared with what JAX makes of the same
arguments. JAX is an extra of this package (`jax`) and is imported here only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from systolic.errors import WorkloadError
from systolic.run.compared import apart
from systolic.run.execute import ChipLike, run
from systolic.run.result import Result
from systolic.workload.data.sources import fitted
from systolic.workload.importers.models import read_hlo


def from_jax(
    function: Callable[..., Any], *arguments: Any, chip: ChipLike, **settings: Any
) -> Result:
    """Run a function of JAX on a chip, and compare the results with those of JAX.

    Args:
        function: as for `jax.jit`.
        arguments: arrays, or trees of arrays; they are the inputs, in the order of their leaves.
        chip: a chip, the name of a shipped one, or the path of a chip file.
        settings: as for `systolic.run`.

    Returns:
        The run's result. `outputs` has output_0, output_1, ... in the order of the leaves of what
        the function returns; `summary["jax"]` says, for each, the largest difference from JAX's own
        result, relative to the largest element.

    Raises:
        WorkloadError: JAX is not installed, or the chip cannot do an operation.

    """
    try:
        import jax
    except ImportError:
        raise WorkloadError(
            "from_jax needs the package jax, which is not installed (an extra of systolic: jax)"
        ) from None
    # Each argument is an input, also one on which no result depends.
    jitted = jax.jit(function, keep_unused=True)
    imported = read_hlo(jitted.lower(*arguments).as_text("hlo"))
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    inputs = dict(imported.constants)
    for name, leaf in zip(imported.inputs, leaves, strict=True):
        if name in imported.graph.inputs:
            inputs[name] = fitted(f"from_jax: {name}", leaf, imported.graph.shape(name))
    result = run(imported.graph, chip, inputs, **settings)
    wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jitted(*arguments))]
    result.summary["jax"] = {
        name: apart(result.outputs[name], array)[0]
        for name, array in zip(imported.outputs, wanted, strict=True)
        if name in result.outputs
    }
    return result
