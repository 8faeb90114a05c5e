"""A random graph is compiled and run: values are numpy's, and the checker finds nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import systolic
from support.refusals import is_for_room
from systolic.arrays import Array
from systolic.compiler.arithmetic import rules_of
from systolic.compiler.ir.nodes import TurnNode
from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.isa.lint.lint import lint
from systolic.run.result import Result
from systolic.run.tensors import graph_images
from systolic.run.verdict import differences
from systolic.workload import Graph, reference_graph


def run_as_numpy(graph: Graph, chip: Chip, inputs: Mapping[str, Array]) -> Result | None:
    """Return the run; None if the chip has no room for it.

    Turns on the array lose the sign of a zero. Values that are not finite are not compared.
    """
    try:
        run = systolic.run(graph, chip, inputs)
    except SystolicError as error:
        assert is_for_room(error)  # noqa: PT017
        return None
    assert run.compiled is not None
    turned = any(isinstance(node, TurnNode) for node in run.compiled.layers.nodes)
    expected = reference_graph(graph, inputs, rules_of(chip), run.compiled.arithmetic.own)
    if all(np.isfinite(array.astype(np.float64)).all() for array in expected.values()):
        for name, array in expected.items():
            assert differences(run.outputs[name], array, signed_zeros=not turned) == 0, name
    given = [image.access for image in graph_images(run.compiled, inputs)]
    assert not [d for d in lint(run.compiled.program, chip, given) if d.severity == "error"]
    return run
