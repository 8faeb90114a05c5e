"""LSTM: a recurrent layer with a cell, step after step. A composite, expanded over all steps.

Gates, in the order of the weights' columns: input i, forget f, cell g, output o. In each step
c = sigmoid(f) * c + sigmoid(i) * tanh(g) and h = sigmoid(o) * tanh(c). The products with the inputs
of all steps are one product; every step has one with the state, which is rounded to the inputs'
type for it. All else is float32, each step rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.row import Attributes, Operand, Row, check_gives, plain
from systolic.workload.operations.softmax import check_floats

GATES = 4


@dataclass(frozen=True, slots=True)
class LstmAttributes(Attributes):
    """Which of the states of all steps is the result."""

    state: Annotated[
        Literal["hidden", "cell"], Field(description="the states that are the result")
    ] = "hidden"


def check_layer(shapes: Sequence[Shape], wanted: Sequence[tuple[str, tuple[int, ...]]]) -> None:
    """Raise WorkloadError unless operands have the dimensions that the first one asks for."""
    check_floats(*shapes)
    for (name, dims), shape in zip(wanted, shapes[1:], strict=True):
        if shape.dims != dims:
            raise WorkloadError(
                f"{name}: needs [{','.join(map(str, dims))}] beside {plain(shapes[0])}, found "
                f"{plain(shape)}"
            )
    for shape in shapes[1:3]:
        if shape.element_type != shapes[0].element_type:
            raise WorkloadError(
                f"weights: needs {shapes[0].element_type}, the type of the inputs, found "
                f"{plain(shape)}"
            )


def layer_sizes(shapes: Sequence[Shape], gates: int) -> tuple[int, int, int, int]:
    """Return (steps, batch, inputs, states); WorkloadError if these cannot be told."""
    source, weights = shapes[:2]
    if source.rank != 3:
        raise WorkloadError(f"needs inputs [steps, batch, inputs], found {plain(source)}")
    if weights.rank != 2 or weights.dims[1] % gates:
        raise WorkloadError(f"weights: needs [inputs, {gates} x states], found {plain(weights)}")
    steps, batch, inputs = source.dims
    return steps, batch, inputs, weights.dims[1] // gates


def _wanted(shapes: Sequence[Shape]) -> tuple[int, ...]:
    """Return the dimensions of the result; WorkloadError if an operand has others."""
    steps, batch, inputs, states = layer_sizes(shapes, GATES)
    columns = GATES * states
    named = [
        ("weights", (inputs, columns)), ("recurrent", (states, columns)), ("bias", (columns,)),
        ("hidden", (batch, states)), ("cell", (batch, states)),
    ]  # fmt: skip
    check_layer(shapes, named)
    return steps, batch, states


def _check(shapes: Sequence[Shape], out: Shape, attributes: LstmAttributes) -> None:
    check_gives(shapes[0], out.element_type, _wanted(shapes), out)
    check_floats(out)


def _default_out(shapes: Sequence[Shape], attributes: LstmAttributes) -> Shape:
    return Shape(shapes[0].element_type, _wanted(shapes))


def inputs_of_all_steps(recipe: Recipe, columns: int, bias: str) -> str:
    """Return f32[steps * batch, columns]: the inputs of all steps times their weights, and bias."""
    steps, batch, inputs = recipe.shape("0").dims
    flat = recipe.reshape("0", (steps * batch, inputs))
    product = recipe.matmul(flat, "1")
    return recipe.combined("add", product, recipe.cast(bias, "f32"), "f32", (1,))


def lstm_parts(
    shapes: Sequence[Shape], out: Shape, attributes: LstmAttributes
) -> list[CompositePart]:
    """Return the operations of an LSTM."""
    recipe = Recipe(shapes)
    steps, batch, _, states = layer_sizes(shapes, GATES)
    dtype, columns = shapes[0].element_type, GATES * states
    fed = inputs_of_all_steps(recipe, columns, "3")
    hidden, cell, found = recipe.cast("4", dtype), recipe.cast("5", "f32"), list[str]()
    for step in range(steps):
        own = recipe.slice(fed, 0, step * batch, (step + 1) * batch)
        back = recipe.matmul(hidden, "2")
        gates = recipe.combined("add", back, own, "f32")
        i, f, g, o = (recipe.slice(gates, 1, n * states, (n + 1) * states) for n in range(GATES))
        kept = recipe.combined("multiply", recipe.function("sigmoid", f), cell, "f32")
        new = recipe.combined(
            "multiply", recipe.function("sigmoid", i), recipe.function("tanh", g), "f32"
        )
        cell = recipe.combined("add", kept, new, "f32")
        shown = recipe.function("tanh", cell)
        made = recipe.combined("multiply", recipe.function("sigmoid", o), shown, "f32")
        hidden = recipe.cast(made, dtype)
        found.append(made if attributes.state == "hidden" else cell)
    recipe.reshape(recipe.cast(recipe.concat(found, 0), out.element_type), out.dims)
    return recipe.done(out)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _exact(arrays: Sequence[Array], out: Shape, attributes: LstmAttributes) -> Array:
    source, weights, recurrent, bias, hidden, cell = (each.astype(np.float64) for each in arrays)
    found = []
    with np.errstate(all="ignore"):
        for inputs in source:
            gates = inputs @ weights + hidden @ recurrent + bias
            i, f, g, o = np.split(gates, GATES, axis=1)
            cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
            hidden = _sigmoid(o) * np.tanh(cell)
            found.append(hidden if attributes.state == "hidden" else cell)
    return np.stack(found)


LSTM = Row(
    operands=(
        Operand("source", "XLA shape of the inputs [steps, batch, inputs]"),
        Operand("weights", "XLA shape of the inputs' weights [inputs, 4 x states]: i, f, g, o"),
        Operand("recurrent", "XLA shape of the states' weights [states, 4 x states]"),
        Operand("bias", "XLA shape of the terms [4 x states]"),
        Operand("hidden", "XLA shape of the first state [batch, states]"),
        Operand("cell", "XLA shape of the first cell [batch, states]"),
    ),
    attributes=LstmAttributes,
    check=_check,
    default_out=_default_out,
    reference=reference_of(lstm_parts),
    exact=_exact,
    computes=True,
    parts=lstm_parts,
)
