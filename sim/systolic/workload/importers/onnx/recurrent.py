"""Rows of ONNX's recurrent layers, expanded over all steps.

A layer has one or two directions, each with weights [gates * states, inputs] of its own. The
products with the inputs of all steps are one; every step has one with the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from systolic.errors import WorkloadError
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext, OnnxRow
from systolic.workload.importers.onnx.model import OnnxNode

MOST_STEPS = 1 << 12
FUNCTIONS = {"relu": "ramp", "tanh": "tanh", "sigmoid": "sigmoid", "softplus": "softplus"}
"""Functions of gates that have no numbers of their own."""


@dataclass(frozen=True, slots=True)
class _Direction:
    """The operands of one direction, its functions, and what its steps share.

    recurrent: [states, gates * states]. terms: those behind the products with inputs, and with
    states. peepholes: of an LSTM, one for each of its gates i, o, f.
    """

    node: OnnxNode
    recurrent: ModelValue
    terms: tuple[ModelValue, ModelValue]
    peepholes: tuple[ModelValue, ...]
    functions: tuple[str, ...]
    states: int


LayerState: TypeAlias = tuple[ModelValue, ...]
LayerStep: TypeAlias = Callable[[OnnxContext, _Direction, ModelValue, LayerState], LayerState]


def _layer(gates: int, defaults: tuple[str, ...], step: LayerStep) -> OnnxRow:
    """Return the row of a layer. step: makes the next state of gates [batch, gates * states]."""

    def row(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
        if "clip" in node.attributes:
            raise CannotLowerError("with clipped gates")
        front = bool(node.number("layout"))
        given = _steps_first(at, given) if front else given
        steps, batch, _ = at.dims(given[0])
        if not steps * batch:
            raise CannotLowerError("without steps, or without elements in each")
        if steps > MOST_STEPS:
            raise CannotLowerError(f"of {steps:,} steps")
        if given[4] is not None:
            lengths = at.known(given[4], "lengths of sequences")
            if (lengths != steps).any():
                raise CannotLowerError("of sequences of several lengths")
        kinds = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        ways = kinds[node.text("direction", "forward")]
        names = node.attributes.get("activations") or defaults * len(ways)
        made = [
            _run(at, node, given, (number, backwards), (gates, step, _functions(names, number,
                 len(defaults))))
            for number, backwards in enumerate(ways)
        ]  # fmt: skip
        every, *last = _results(at, made)
        if front:
            every = at.transpose(every, (2, 0, 1, 3))
            last = [at.transpose(each, (1, 0, 2)) for each in last]
        return every, *last

    return row


def _steps_first(at: OnnxContext, given: NodeOperands) -> NodeOperands:
    """Return operands with steps, or directions, in front of the batch."""
    return [
        at.transpose(each, (1, 0, 2)) if each is not None and number in (0, 5, 6) else each
        for number, each in enumerate(given)
    ]


def _functions(names: Sequence[str], number: int, count: int) -> tuple[str, ...]:
    own = [name.lower() for name in names[number * count : (number + 1) * count]]
    for name in own:
        if name not in FUNCTIONS:
            raise CannotLowerError(f"with the function {name}")
    return tuple(FUNCTIONS[name] for name in own)


def _part(at: OnnxContext, value: ModelValue, number: int) -> ModelValue:
    """Return what belongs to one direction."""
    return at.reshape(at.part(value, 0, number, number + 1), at.dims(value)[1:])


LayerKind: TypeAlias = tuple[int, LayerStep, tuple[str, ...]]


def _run(
    at: OnnxContext, node: OnnxNode, given: NodeOperands, way: tuple[int, bool], kind: LayerKind
) -> tuple[list[ModelValue], LayerState]:
    """Return the states of all steps of a direction, in the order of steps, and the last one."""
    (number, backwards), (gates, step, functions) = way, kind
    steps, batch, inputs = at.dims(given[0])
    weights, recurrent = _part(at, given[1], number), _part(at, given[2], number)
    states = at.dims(recurrent)[-1]
    if at.dims(weights) != (gates * states, inputs):
        raise WorkloadError(f"weights of {list(at.dims(weights))} for {inputs} inputs")
    direction = _Direction(
        node,
        at.transpose(recurrent, (1, 0)),
        _terms(at, given[3], number, gates * states),
        _peepholes(at, given[7], number, states),
        functions,
        states,
    )
    flat = at.reshape(given[0], (steps * batch, inputs))
    products = at.product(flat, at.transpose(weights, (1, 0)))
    columns = at.reshape(products, (steps, batch, gates * states))
    nothing = np.zeros((batch, states), at.shape(given[0]).dtype)
    state: LayerState = tuple(
        nothing if each is None else _part(at, each, number) for each in (given[5], given[6])
    )
    found: list[ModelValue] = []
    for at_step in reversed(range(steps)) if backwards else range(steps):
        own = at.reshape(at.part(columns, 0, at_step, at_step + 1), (batch, gates * states))
        state = step(at, direction, own, state)
        found.append(state[0])
    return found[::-1] if backwards else found, state


def _terms(
    at: OnnxContext, value: ModelValue, number: int, count: int
) -> tuple[ModelValue, ModelValue]:
    if value is None:
        return None, None
    own = _part(at, value, number)
    return at.part(own, 0, 0, count), at.part(own, 0, count, 2 * count)


def _peepholes(
    at: OnnxContext, value: ModelValue, number: int, states: int
) -> tuple[ModelValue, ...]:
    if value is None:
        return ()
    own = _part(at, value, number)
    return tuple(at.part(own, 0, n * states, (n + 1) * states) for n in range(3))


def _results(
    at: OnnxContext, made: Sequence[tuple[list[ModelValue], LayerState]]
) -> tuple[ModelValue, ...]:
    """Return the states [steps, directions, batch, states], and the last ones of each direction."""
    steps = len(made[0][0])
    batch, states = at.dims(made[0][0][0])
    every = [
        at.reshape(found[step], (1, 1, batch, states)) for step in range(steps) for found, _ in made
    ]
    whole = at.reshape(at.joined(every, 0), (steps, len(made), batch, states))
    last = [
        at.joined([at.reshape(state[n], (1, batch, states)) for _, state in made], 0)
        for n in range(len(made[0][1]))
    ]
    return whole, *last


def _plus(at: OnnxContext, value: ModelValue, term: ModelValue) -> ModelValue:
    return value if term is None else at.binary("add", value, term)


def _gate(at: OnnxContext, value: ModelValue, number: int, states: int) -> ModelValue:
    return at.part(value, 1, number * states, (number + 1) * states)


def _simple(at: OnnxContext, way: _Direction, own: ModelValue, state: LayerState) -> LayerState:
    total = at.binary("add", own, at.product(state[0], way.recurrent))
    for term in way.terms:
        total = _plus(at, total, term)
    return (at.unary(total, way.functions[0]),)


def _gru(at: OnnxContext, way: _Direction, own: ModelValue, state: LayerState) -> LayerState:
    """Gates z, r, h: the state is (1 - z) * h + z * state."""
    count, hidden = way.states, state[0]
    own = _plus(at, own, way.terms[0])
    after = bool(way.node.number("linear_before_reset"))
    width = 3 if after else 2
    weights = at.part(way.recurrent, 1, 0, width * count)
    with_state: ModelValue = at.product(hidden, weights)
    if way.terms[1] is not None:
        with_state = at.binary("add", with_state, at.part(way.terms[1], 0, 0, width * count))
    update, reset = (
        at.unary(
            at.binary("add", _gate(at, own, n, count), _gate(at, with_state, n, count)),
            way.functions[0],
        )
        for n in range(2)
    )
    if after:
        inner = at.binary("multiply", reset, _gate(at, with_state, 2, count))
    else:
        rows = at.part(way.recurrent, 1, 2 * count, 3 * count)
        inner = at.product(at.binary("multiply", reset, hidden), rows)
        if way.terms[1] is not None:
            inner = at.binary("add", inner, at.part(way.terms[1], 0, 2 * count, 3 * count))
    fresh = at.unary(at.binary("add", _gate(at, own, 2, count), inner), way.functions[1])
    kept = at.binary("multiply", update, at.binary("subtract", hidden, fresh))
    return (at.binary("add", fresh, kept),)


def _lstm(at: OnnxContext, way: _Direction, own: ModelValue, state: LayerState) -> LayerState:
    """Gates i, o, f, c: the cell is f * cell + i * c, the state o * h(cell)."""
    count, (hidden, cell) = way.states, state
    total = at.binary("add", own, at.product(hidden, way.recurrent))
    for term in way.terms:
        total = _plus(at, total, term)
    if way.node.number("input_forget"):
        raise CannotLowerError("with one gate for input and forget")
    first, second, third = way.functions

    def gate(number: int, seen: ModelValue) -> ModelValue:
        value = _gate(at, total, number, count)
        if way.peepholes:
            value = at.binary("add", value, at.binary("multiply", way.peepholes[number], seen))
        return at.unary(value, first)

    fresh = at.unary(_gate(at, total, 3, count), second)
    kept = at.binary("multiply", gate(2, cell), cell)
    made = at.binary("add", kept, at.binary("multiply", gate(0, cell), fresh))
    return at.binary("multiply", gate(1, made), at.unary(made, third)), made


RECURRENT: dict[str, OnnxRow] = {
    "RNN": _layer(1, ("tanh",), _simple),
    "GRU": _layer(3, ("sigmoid", "tanh"), _gru),
    "LSTM": _layer(4, ("sigmoid", "tanh", "tanh"), _lstm),
}
