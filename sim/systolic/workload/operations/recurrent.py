"""What recurrent layers have in common: operands, checks, gates, the product with all inputs.

Weights have the columns of all gates side by side. The products with the inputs of all steps are
one product; every step has one with the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.recipe import Recipe
from systolic.workload.operations.row import A, Operand, check_gives, plain
from systolic.workload.operations.softmax import check_floats


def layer_sizes(shapes: Sequence[Shape], gates: int) -> tuple[int, int, int, int]:
    """Return (steps, batch, inputs, states); WorkloadError if these cannot be told."""
    source, weights = shapes[:2]
    if source.rank != 3:
        raise WorkloadError(f"needs inputs [steps, batch, inputs], found {plain(source)}")
    if weights.rank != 2 or weights.dims[1] % gates:
        raise WorkloadError(f"weights: needs [inputs, {gates} x states], found {plain(weights)}")
    steps, batch, inputs = source.dims
    return steps, batch, inputs, weights.dims[1] // gates


def layer_dims(
    operands: Sequence[Operand], gates: int
) -> Callable[[Sequence[Shape], A], tuple[int, ...]]:
    """Return the function that gives the result's dimensions, (steps, batch, states).

    It raises WorkloadError if an operand has other dimensions than the inputs ask for.
    """

    def dims(shapes: Sequence[Shape], attributes: A) -> tuple[int, ...]:
        steps, batch, inputs, states = layer_sizes(shapes, gates)
        columns = gates * states
        wanted = {
            "weights": (inputs, columns), "recurrent": (states, columns), "bias": (columns,),
            "recurrent_bias": (columns,), "hidden": (batch, states), "cell": (batch, states),
        }  # fmt: skip
        check_floats(*shapes)
        for operand, shape in zip(operands[1:], shapes[1:], strict=True):
            if shape.dims != wanted[operand.name]:
                raise WorkloadError(
                    f"{operand.name}: needs [{','.join(map(str, wanted[operand.name]))}] beside "
                    f"{plain(shapes[0])}, found {plain(shape)}"
                )
        for shape in shapes[1:3]:
            if shape.element_type != shapes[0].element_type:
                raise WorkloadError(
                    f"weights: needs {shapes[0].element_type}, the type of the inputs, found "
                    f"{plain(shape)}"
                )
        return steps, batch, states

    return dims


def gives_floats(
    dims: Callable[[Sequence[Shape], A], tuple[int, ...]],
) -> Callable[[Sequence[Shape], Shape, A], None]:
    """Return the `check` of a layer whose result has these dimensions, in any type of floats."""

    def check(shapes: Sequence[Shape], out: Shape, attributes: A) -> None:
        check_gives(shapes[0], out.element_type, dims(shapes, attributes), out)
        check_floats(out)

    return check


def inputs_of_all_steps(recipe: Recipe, bias: str) -> str:
    """Return f32[steps * batch, columns]: the inputs of all steps times their weights, and bias."""
    steps, batch, inputs = recipe.shape("0").dims
    flat = recipe.reshape("0", (steps * batch, inputs))
    product = recipe.matmul(flat, "1")
    return recipe.combined("add", product, recipe.cast(bias, "f32"), "f32", (1,))


def in_gates(recipe: Recipe, columns: str, count: int) -> list[str]:
    """Return the columns of each of `count` gates that lie side by side."""
    states = recipe.shape(columns).dims[1] // count
    return [recipe.slice(columns, 1, n * states, (n + 1) * states) for n in range(count)]


def stacked(recipe: Recipe, found: Sequence[str], out: Shape) -> None:
    """Add the result: the states of all steps, one behind the other."""
    recipe.reshape(recipe.cast(recipe.concat(found, 0), out.element_type), out.dims)


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + e^-x) of each element."""
    return np.asarray(1 / (1 + np.exp(-x)))
