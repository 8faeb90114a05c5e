"""LSTM: a recurrent layer with a cell, step after step. A composite, expanded over all steps.

Gates, in the order of the weights' columns: input i, forget f, cell g, output o. In each step
c = sigmoid(f) * c + sigmoid(i) * tanh(g) and h = sigmoid(o) * tanh(c). The state is rounded to the
inputs' type for its product. All else is float32, each step rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.operations.composite import reference_of
from systolic.workload.operations.recipe import CompositePart, Recipe
from systolic.workload.operations.recurrent import (
    gives_floats,
    in_gates,
    inputs_of_all_steps,
    layer_dims,
    layer_sizes,
    sigmoid,
    stacked,
)
from systolic.workload.operations.row import Attributes, Operand, Row, of_first_type

GATES = 4
OPERANDS = (
    Operand("source", "XLA shape of the inputs [steps, batch, inputs]"),
    Operand("weights", "XLA shape of the inputs' weights [inputs, 4 x states]: i, f, g, o"),
    Operand("recurrent", "XLA shape of the states' weights [states, 4 x states]"),
    Operand("bias", "XLA shape of the terms [4 x states]"),
    Operand("hidden", "XLA shape of the first state [batch, states]"),
    Operand("cell", "XLA shape of the first cell [batch, states]"),
)
_dims = layer_dims(OPERANDS, GATES)


@dataclass(frozen=True, slots=True)
class LstmAttributes(Attributes):
    """Which of the states of all steps is the result."""

    state: Annotated[
        Literal["hidden", "cell"], Field(description="the states that are the result")
    ] = "hidden"


def lstm_parts(
    shapes: Sequence[Shape], out: Shape, attributes: LstmAttributes
) -> list[CompositePart]:
    """Return the operations of an LSTM."""
    recipe = Recipe(shapes)
    steps, batch, _, _ = layer_sizes(shapes, GATES)
    dtype, fed = shapes[0].element_type, inputs_of_all_steps(recipe, "3")
    hidden, cell, found = recipe.cast("4", dtype), recipe.cast("5", "f32"), list[str]()
    for step in range(steps):
        own = recipe.slice(fed, 0, step * batch, (step + 1) * batch)
        back = recipe.matmul(hidden, "2")
        gates = recipe.combined("add", back, own, "f32")
        i, f, g, o = in_gates(recipe, gates, GATES)
        kept = recipe.combined("multiply", recipe.function("sigmoid", f), cell, "f32")
        new = recipe.combined(
            "multiply", recipe.function("sigmoid", i), recipe.function("tanh", g), "f32"
        )
        cell = recipe.combined("add", kept, new, "f32")
        shown = recipe.function("tanh", cell)
        made = recipe.combined("multiply", recipe.function("sigmoid", o), shown, "f32")
        hidden = recipe.cast(made, dtype)
        found.append(made if attributes.state == "hidden" else cell)
    stacked(recipe, found, out)
    return recipe.done(out)


def _exact(arrays: Sequence[Array], out: Shape, attributes: LstmAttributes) -> Array:
    source, weights, recurrent, bias, hidden, cell = (each.astype(np.float64) for each in arrays)
    found = []
    with np.errstate(all="ignore"):
        for inputs in source:
            gates = inputs @ weights + hidden @ recurrent + bias
            i, f, g, o = np.split(gates, GATES, axis=1)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            hidden = sigmoid(o) * np.tanh(cell)
            found.append(hidden if attributes.state == "hidden" else cell)
    return np.stack(found)


LSTM = Row(
    operands=OPERANDS,
    attributes=LstmAttributes,
    check=gives_floats(_dims),
    default_out=of_first_type(_dims),
    reference=reference_of(lstm_parts),
    exact=_exact,
    computes=True,
    parts=lstm_parts,
)
