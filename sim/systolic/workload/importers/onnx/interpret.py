"""An ONNX graph as a form: its nodes are gone through in order.

What follows from constants and shapes alone is calculated (`known`); every other node has a row in
`table`, or is a function that ONNX defines by other operators. Of an If whose condition is known
the branch that is taken stands in its place; of another both are computed, and a select takes one.
What cannot be done is collected and said at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from systolic.errors import WorkloadError, shortened
from systolic.workload.importers.errors import CannotLowerError, ImportFileError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext
from systolic.workload.importers.onnx.functions import function_body
from systolic.workload.importers.onnx.known import known_results
from systolic.workload.importers.onnx.model import OnnxGraph, OnnxNode, at_node
from systolic.workload.importers.onnx.read import LAST_OPSET
from systolic.workload.importers.onnx.table import ROWS

MOST_OPERANDS = 16
MOST_NODES = 200_000
"""The most nodes that are gone through, nodes of functions and branches included."""


NO_OPERATION = "graphs have no such operation"
MISSING: ModelValue = ()
"""Stands for the result of a node that is not done."""


@dataclass(frozen=True, slots=True)
class NodeNotDone:
    """A node that the chip cannot do: its operator, its name, and why."""

    operator: str
    name: str
    why: str


class OnnxInterpreter:
    """Goes through the nodes of a graph and of graphs inside it."""

    def __init__(self, opset: int) -> None:
        self.at = OnnxContext(run=self._run_inside)
        self.not_done: list[NodeNotDone] = []
        self._opset = opset
        self._count = 0
        self._outside: list[dict[str, ModelValue]] = []

    def run(self, graph: OnnxGraph, inputs: Mapping[str, ModelValue]) -> list[ModelValue]:
        """Return the results of a graph. inputs: values by name, those from outside included."""
        values: dict[str, ModelValue] = {**graph.constants, **inputs}
        self._outside.append(values)
        needed = _needed(graph)
        for node in graph.nodes:
            if any(name in needed for name in node.outputs):
                self._step(node, values)
        self._outside.pop()
        return [values[each.name] for each in graph.outputs]

    def _run_inside(self, graph: OnnxGraph, inputs: Mapping[str, ModelValue]) -> list[ModelValue]:
        return self.run(graph, {**self._outside[-1], **inputs})

    def _step(self, node: OnnxNode, values: dict[str, ModelValue]) -> None:
        self._count += 1
        if self._count > MOST_NODES:
            raise ImportFileError(f"{at_node(node.name)}: more than {MOST_NODES:,} nodes")
        given = [values[name] if name else None for name in node.inputs]
        self.at.form.begin(node.name, 0)
        try:
            if MISSING in [each for each in given if isinstance(each, tuple)]:
                found: ModelValue = self._behind_missing(node)
            else:
                found = self._made(node, given)
        except CannotLowerError as error:
            self.not_done.append(NodeNotDone(node.operator, node.name, str(error)))
            found = (MISSING,) * len(node.outputs)
        except ImportFileError:
            raise
        except WorkloadError as error:
            raise ImportFileError(f"{at_node(node.name)}: {node.operator}: {error}") from None
        results = found if isinstance(found, tuple) else (found,)
        values.update(zip(node.outputs, results, strict=False))

    def _behind_missing(self, node: OnnxNode) -> ModelValue:
        """Return nothing for a node behind one that is not done; an unknown operator is said."""
        if node.operator not in {*ROWS, "Constant", "If"} and (
            node.domain or function_body(node, self._opset, ()) is None
        ):
            raise CannotLowerError(NO_OPERATION)
        return (MISSING,) * len(node.outputs)

    def _made(self, node: OnnxNode, given: list[ModelValue]) -> ModelValue:
        if node.domain:
            raise CannotLowerError(f'of the domain "{shortened(node.domain)}" only names are known')
        if node.version > LAST_OPSET:
            raise CannotLowerError(f"is of opset {node.version}; those to {LAST_OPSET} are read")
        if node.operator == "Constant":
            return _constant(node)
        if node.operator == "If":
            return self._branches(node, given)
        if all(each is None or isinstance(each, np.ndarray) for each in given) and given:
            known = known_results(node, given, self._opset)  # type: ignore[arg-type]
            if known is not None:
                return tuple(known)
        row = ROWS.get(node.operator)
        if row is not None:
            return row(self.at, node, padded(given))
        return self._called(node, given)

    def _called(self, node: OnnxNode, given: list[ModelValue]) -> ModelValue:
        """Go through the body of an operator that ONNX defines by others."""
        shapes = [None if each is None else self.at.shape(each) for each in given]
        body = function_body(node, self._opset, shapes)
        if body is None:
            raise CannotLowerError(NO_OPERATION)
        names = (each.name for each in body.graph.inputs)
        inputs = dict(zip(names, padded(given), strict=False))
        outside, self._outside = self._outside, []
        results = self.run(body.graph, inputs)
        self._outside = outside
        made = (each.name for each in body.graph.outputs)
        found = dict(zip(made, results, strict=True))
        return tuple(found.get(name) for name in body.outputs)

    def _branches(self, node: OnnxNode, given: list[ModelValue]) -> ModelValue:
        (condition,) = given
        yes, no = (node.attributes[key] for key in ("then_branch", "else_branch"))
        if isinstance(condition, np.ndarray):
            return tuple(self._run_inside(yes if condition.all() else no, {}))
        both = zip(self._run_inside(yes, {}), self._run_inside(no, {}), strict=True)
        single = self.at.reshape(condition, ())
        return tuple(self.at.select(single, one, other) for one, other in both)


def padded(given: Sequence[ModelValue]) -> NodeOperands:
    """Return operands with None behind them, for those that are left out."""
    return [*given, *(None for _ in range(MOST_OPERANDS))]


def _needed(graph: OnnxGraph) -> set[str]:
    """Return the values on which the results of a graph depend."""
    from systolic.workload.importers.onnx.read import needed_names

    needed = {each.name for each in graph.outputs}
    for node in reversed(graph.nodes):
        if any(name in needed for name in node.outputs):
            needed |= needed_names(node)
    return needed


def _constant(node: OnnxNode) -> ModelValue:
    for key, dtype in (
        ("value", None), ("value_float", np.float32), ("value_floats", np.float32),
        ("value_int", np.int64), ("value_ints", np.int64),
    ):  # fmt: skip
        if key in node.attributes:
            return np.asarray(node.attributes[key], dtype)
    raise CannotLowerError("a constant of texts or of sparse numbers")
