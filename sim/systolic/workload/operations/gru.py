"""GRU: a recurrent layer of gated states, step after step. A composite, expanded over all steps.

Gates, in the order of the weights' columns: reset r, update z, new n. In each step, with the
product of the state p, n = tanh(x + sigmoid(r) * p) and h = (1 - sigmoid(z)) * n + sigmoid(z) * h.
Or the state is reset before its product, and p is the product of sigmoid(r) * h (`reset_after =
false`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

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

GATES = 3
OPERANDS = (
    Operand("source", "XLA shape of the inputs [steps, batch, inputs]"),
    Operand("weights", "XLA shape of the inputs' weights [inputs, 3 x states]: r, z, n"),
    Operand("recurrent", "XLA shape of the states' weights [states, 3 x states]"),
    Operand("bias", "XLA shape of the inputs' terms [3 x states]"),
    Operand("recurrent_bias", "XLA shape of the states' terms [3 x states]"),
    Operand("hidden", "XLA shape of the first state [batch, states]"),
)
_dims = layer_dims(OPERANDS, GATES)


@dataclass(frozen=True, slots=True)
class GruAttributes(Attributes):
    """Where the state is reset."""

    reset_after: Annotated[
        bool, Field(description="reset the product of the state, or else the state before it")
    ] = True


def gru_parts(
    shapes: Sequence[Shape], out: Shape, attributes: GruAttributes
) -> list[CompositePart]:
    """Return the operations of a GRU."""
    recipe = Recipe(shapes)
    steps, batch, _, states = layer_sizes(shapes, GATES)
    fed = inputs_of_all_steps(recipe, "3")
    terms, hidden, found = recipe.cast("4", "f32"), recipe.cast("5", "f32"), list[str]()
    for step in range(steps):
        own = recipe.slice(fed, 0, step * batch, (step + 1) * batch)
        x = in_gates(recipe, own, GATES)
        if attributes.reset_after:
            back = _product(recipe, hidden, "2", terms)
            p = in_gates(recipe, back, GATES)
        else:
            gates = recipe.slice("2", 1, 0, 2 * states)
            back = _product(recipe, hidden, gates, recipe.slice(terms, 0, 0, 2 * states))
            p = in_gates(recipe, back, 2)
        r, z = (
            recipe.function("sigmoid", recipe.combined("add", p[n], x[n], "f32")) for n in range(2)
        )
        if attributes.reset_after:
            reset = recipe.combined("multiply", r, p[2], "f32")
        else:
            state = recipe.combined("multiply", r, hidden, "f32")
            last = recipe.slice("2", 1, 2 * states, 3 * states)
            reset = _product(recipe, state, last, recipe.slice(terms, 0, 2 * states, 3 * states))
        new = recipe.function("tanh", recipe.combined("add", reset, x[2], "f32"))
        rest = recipe.function("identity", z, -1.0, 1.0)
        taken = recipe.combined("multiply", rest, new, "f32")
        kept = recipe.combined("multiply", z, hidden, "f32")
        hidden = recipe.combined("add", taken, kept, "f32")
        found.append(hidden)
    stacked(recipe, found, out)
    return recipe.done(out)


def _product(recipe: Recipe, state: str, weights: str, terms: str) -> str:
    """Return a state times its weights, and terms; it is rounded to the inputs' type for it."""
    narrow = recipe.cast(state, recipe.shape("0").element_type)
    return recipe.combined("add", recipe.matmul(narrow, weights), terms, "f32", (1,))


def _exact(arrays: Sequence[Array], out: Shape, attributes: GruAttributes) -> Array:
    source, weights, recurrent, bias, terms, hidden = (each.astype(np.float64) for each in arrays)
    size, found = out.dims[-1], []
    for inputs in source:
        x = np.split(inputs @ weights + bias, GATES, axis=1)
        p = np.split(hidden @ recurrent + terms, GATES, axis=1)
        r, z = sigmoid(x[0] + p[0]), sigmoid(x[1] + p[1])
        before = (r * hidden) @ recurrent[:, 2 * size :] + terms[2 * size :]
        new = np.tanh(x[2] + (r * p[2] if attributes.reset_after else before))
        hidden = (1 - z) * new + z * hidden
        found.append(hidden)
    return np.stack(found)


GRU = Row(
    operands=OPERANDS,
    attributes=GruAttributes,
    check=gives_floats(_dims),
    default_out=of_first_type(_dims),
    reference=reference_of(gru_parts),
    exact=_exact,
    computes=True,
    parts=gru_parts,
)
