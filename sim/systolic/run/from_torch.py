"""A module of PyTorch on the machine: `systolic.from_torch(module, *args, chip=...)`.

PyTorch exports the module as ONNX, which is read, run, and compared with what PyTorch makes of the
same arguments. PyTorch is an extra of this package (`torch`) and is imported here only.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError, shortened
from systolic.run.compared import apart
from systolic.run.execute import ChipLike, run
from systolic.run.result import Result
from systolic.workload.data.sources import fitted
from systolic.workload.importers.given import ModelGiven
from systolic.workload.importers.models import read_onnx

LONGEST_REASON = 200


def from_torch(module: Any, *arguments: Any, chip: ChipLike, **settings: Any) -> Result:
    """Run a module of PyTorch on a chip, and compare the results with those of PyTorch.

    Args:
        module: a `torch.nn.Module`, as it is: `module.eval()` turns dropout off before.
        arguments: what the module takes; the tensors among them are the inputs, in their order.
        chip: a chip, the name of a shipped one, or the path of a chip file.
        settings: as for `systolic.run`.

    Returns:
        The run's result. `outputs` has the results by the names that PyTorch's exporter gives them,
        in the order in which the module returns them; `summary["torch"]` says, for each, the
        largest difference from PyTorch's own result, relative to the largest element.

    Raises:
        WorkloadError: PyTorch or its exporter's package onnxscript is not installed, the module
            cannot be exported, or the chip cannot do an operation.

    """
    torch = _torch()
    leaves = [_array(each) for each in _tensors(torch, arguments)]
    model = _exported(torch, module, arguments)
    names = [each.name for each in model.graph.input]
    imported = read_onnx(model, Path(), ModelGiven(values=dict(zip(names, leaves, strict=True))))
    inputs = dict(imported.constants)
    for name, leaf in zip(names, leaves, strict=True):
        if name in imported.graph.inputs:
            inputs[name] = fitted(f"from_torch: {name}", leaf, imported.graph.shape(name))
    result = run(imported.graph, chip, inputs, **settings)
    with torch.no_grad():
        wanted = [_array(each) for each in _tensors(torch, module(*arguments))]
    pairs = [
        (name, array)
        for name, array in zip(imported.outputs, wanted, strict=True)
        if name in result.outputs
    ]
    result.summary["torch"] = {name: apart(result.outputs[name], array)[0] for name, array in pairs}
    for name in imported.int64:
        result.outputs[name] = result.outputs[name].astype(np.int64)
    return result


def _torch() -> Any:
    try:
        import onnxscript  # noqa: F401 - its exporter needs it
        import torch
    except ImportError as error:
        raise WorkloadError(
            f"from_torch needs the package {error.name}, which is not installed (an extra of "
            "systolic: torch)"
        ) from None
    return torch


def _tensors(torch: Any, values: Any) -> list[Any]:
    """Return the tensors in a tree of values, in order."""
    leaves = torch.utils._pytree.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _array(tensor: Any) -> Array:
    """Return a tensor as an array; numpy has no bf16, so it is given as f32."""
    plain = tensor.detach().cpu()
    found: Array = (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the exporter says of its own parts, such as packages that it does not need."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _exported(torch: Any, module: Any, arguments: tuple[Any, ...]) -> Any:
    """Return a module as a message of the package onnx."""
    with _quiet():
        try:
            program = torch.onnx.export(module, arguments, dynamo=True, verbose=False)
        except Exception as error:  # the exporter fails in many ways
            lines = str(error).strip().splitlines() or [type(error).__name__]
            reason = shortened(lines[0], LONGEST_REASON)
            raise WorkloadError(f"PyTorch cannot export the module ({reason})") from None
    return program.model_proto
