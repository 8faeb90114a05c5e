"""An HLO module as a form: its entry is gone through as an interpreter would.

Calls and fusions are gone through where they stand, and loops turn by turn as long as their
condition is known. What follows from constants alone is calculated (`known`); every other
instruction has a row in `table`. What cannot be done is collected and said at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.importers.errors import (
    CannotLowerError,
    ImportFileError,
    fail_at,
    line_and_column,
)
from systolic.workload.importers.form import ModelForm, ModelValue
from systolic.workload.importers.hlo.attributes import (
    AttributeFaultError,
    number,
)
from systolic.workload.importers.hlo.context import HloContext
from systolic.workload.importers.hlo.inference import branches_of, check_shape, kind_text, kinds
from systolic.workload.importers.hlo.known import known_value
from systolic.workload.importers.hlo.literals import literal
from systolic.workload.importers.hlo.module import Computation, HloInstruction, HloModule, HloShape
from systolic.workload.importers.hlo.table import ROWS

MOST_INSTRUCTIONS = 200_000
"""The most instructions that are gone through; an unrolled loop's count each time."""


@dataclass(frozen=True, slots=True)
class NotDone:
    """An operation that the chip cannot do: its opcode, its place, and why."""

    opcode: str
    offset: int
    why: str


@dataclass(slots=True)
class Lowered:
    """A module as a form: its results in the order of the root tuple, and what is not done."""

    form: ModelForm
    results: tuple[ModelValue, ...]
    result_shapes: tuple[Shape, ...]
    not_done: list[NotDone] = field(default_factory=list)


def lower_module(module: HloModule, parameters: Mapping[int, str] | None = None) -> Lowered:
    """Return a module as a form. parameters: names for parameters of the entry, by number.

    Raises:
        ImportFileError: shapes contradict one another, a loop has no known end, a computation calls
            itself; with line and column.

    """
    return _Interpreter(module).entry(parameters or {})


class _Interpreter:
    def __init__(self, module: HloModule) -> None:
        self._module = module
        self.at = HloContext(module.computations, run=self._run)
        self._not_done: list[NotDone] = []
        self._running: list[str] = []
        self._steps = 0

    def entry(self, parameters: Mapping[int, str]) -> Lowered:
        module = self._module
        for computation in module.computations.values():
            self._check(computation)
        made = module.entry.parameters
        result_shape = module.entry.root.shape
        shapes = tuple(each.shape for each in made)
        if module.layouts is not None:
            self._check_layouts(module.layouts, (shapes, result_shape))
            shapes, result_shape = module.layouts
        values = [
            self._input(parameters.get(at, each.name), shape)
            for at, (each, shape) in enumerate(zip(made, shapes, strict=True))
        ]
        result = self._run(module.entry, values)
        return Lowered(
            self.at.form, tuple(_flat(result)), tuple(_leaves(result_shape)), self._not_done
        )

    def _input(self, name: str, shape: HloShape) -> ModelValue:
        if isinstance(shape, tuple):
            return tuple(self._input(f"{name}.{n}", each) for n, each in enumerate(shape))
        if shape is None:
            return None
        return self.at.form.input(name, shape)

    def _check_layouts(self, layouts: HloShape, entry: HloShape) -> None:
        """Raise ImportFileError if entry_computation_layout has other shapes than the entry."""
        if kinds(layouts) != kinds(entry):
            at = self._module.text.index("entry_computation_layout=")
            fail_at(
                self._module.text,
                at,
                f"entry_computation_layout says {kind_text(kinds(layouts))}, the entry "
                f"{kind_text(kinds(entry))}",
            )

    def _check(self, computation: Computation) -> None:
        """Raise ImportFileError if a shape is not what the operands give."""
        made = {each.name: each for each in computation.instructions}
        for each in computation.instructions:
            try:
                check_shape(each, [made[name] for name in each.operands], self._module.computations)
            except AttributeFaultError as error:
                fail_at(self._module.text, each.offset, str(error))

    def _run(self, computation: Computation, arguments: Sequence[ModelValue]) -> ModelValue:
        """Return the value of a computation's root."""
        if computation.name in self._running:
            fail_at(self._module.text, computation.offset, f"{computation.name} calls itself")
        self._running.append(computation.name)
        values: dict[str, ModelValue] = {}
        needed = _needed(computation)
        shapes = {made.name: made.shape for made in computation.instructions}
        for made in computation.instructions:
            if made.name in needed:
                self._count(made)
                values[made.name] = self._value(made, values, shapes, arguments)
        self._running.pop()
        return values[computation.root.name]

    def _count(self, made: HloInstruction) -> None:
        self._steps += 1
        if self._steps > MOST_INSTRUCTIONS:
            at = self._module.text, made.offset
            fail_at(*at, f"more than {MOST_INSTRUCTIONS} instructions when all loops are unrolled")

    def _value(
        self,
        made: HloInstruction,
        values: Mapping[str, ModelValue],
        shapes: Mapping[str, HloShape],
        arguments: Sequence[ModelValue],
    ) -> ModelValue:
        if made.opcode == "parameter":
            return arguments[int(made.argument)]
        operands = [values[name] for name in made.operands]
        self.at.begin([shapes[name] for name in made.operands])
        self.at.form.begin(made.title, made.offset)
        try:
            return self._made(made, operands)
        except AttributeFaultError as error:
            fail_at(self._module.text, made.offset, str(error))
        except ImportFileError:
            raise
        except WorkloadError as error:
            fail_at(self._module.text, made.offset, str(error))
        except CannotLowerError as error:
            self._not_done.append(NotDone(made.opcode, made.offset, str(error)))
            return self._stand_in(made.shape)

    def _made(self, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        if made.opcode == "constant":
            return literal(made.argument, made.array)
        if made.opcode in CONTROL:
            return CONTROL[made.opcode](self, made, operands)
        if all(isinstance(each, np.ndarray) for each in operands):
            known = known_value(made, [each for each in operands if isinstance(each, np.ndarray)])
            if known is not None:
                return known
        row = ROWS.get(made.opcode)
        if row is None:
            raise CannotLowerError("graphs have no such operation")
        return row(self.at, made, operands)

    def _stand_in(self, shape: HloShape) -> ModelValue:
        """Return inputs in place of what cannot be done, so that the rest is looked at too."""
        if isinstance(shape, tuple):
            return tuple(self._stand_in(each) for each in shape)
        return None if shape is None else self.at.form.input("missing", shape)

    # control

    def called(self, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        key = "calls" if made.opcode == "fusion" else "to_apply"
        return self._run(self.at.named(made, key), operands)

    def tupled(self, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        return tuple(operands)

    def element(self, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        (given,) = operands
        assert isinstance(given, tuple)
        return given[number(made, "index")]

    def loop(self, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        condition, body = self.at.named(made, "condition"), self.at.named(made, "body")
        (state,) = operands
        while True:
            goes_on = self._run(condition, [state])
            if not isinstance(goes_on, np.ndarray):
                raise CannotLowerError("how often the loop turns is known only when running")
            if not bool(goes_on):
                return state
            state = self._run(body, [state])

    def conditional(self, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        selector, *arguments = operands
        branches = branches_of(made, self._module.computations)
        if isinstance(selector, np.ndarray):
            at = int(selector)
            if selector.dtype == bool:
                at = 1 - at
            elif not 0 <= at < len(branches):
                at = len(branches) - 1
            return self._run(branches[at], [arguments[at]])
        found = [self._run(each, [a]) for each, a in zip(branches, arguments, strict=True)]
        chosen = found[-1]  # whatever number is no branch's takes the last
        for at, result in reversed(list(enumerate(found[:-1]))):
            chosen = self._chosen(self._is(selector, at), result, chosen)
        return chosen

    def _is(self, selector: ModelValue, branch: int) -> ModelValue:
        """Return whether a scalar selects a branch; of a pred, true selects the first."""
        shape = self.at.form.shape(selector)
        if shape.element_type == "pred":
            return selector
        wanted = np.array(branch, shape.dtype)
        return self.at.form.binary("equal", selector, wanted, Shape("pred", ()))

    def _chosen(
        self, selector: ModelValue, on_true: ModelValue, on_false: ModelValue
    ) -> ModelValue:
        if isinstance(on_true, tuple):
            assert isinstance(on_false, tuple)
            pairs = zip(on_true, on_false, strict=True)
            return tuple(self._chosen(selector, one, other) for one, other in pairs)
        return self.at.form.select(selector, on_true, on_false, self.at.form.shape(on_true))

    def ordered(self, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        return None

    def barrier(self, made: HloInstruction, operands: list[ModelValue]) -> ModelValue:
        return operands[0]


HloControl: TypeAlias = Callable[[_Interpreter, HloInstruction, list[ModelValue]], ModelValue]
CONTROL: dict[str, HloControl] = {
    "call": _Interpreter.called,
    "fusion": _Interpreter.called,
    "tuple": _Interpreter.tupled,
    "get-tuple-element": _Interpreter.element,
    "while": _Interpreter.loop,
    "conditional": _Interpreter.conditional,
    "after-all": _Interpreter.ordered,
    "optimization-barrier": _Interpreter.barrier,
}


def _needed(computation: Computation) -> set[str]:
    """Return the names of the instructions on which the root depends."""
    needed = {computation.root.name}
    for made in reversed(computation.instructions):
        if made.name in needed:
            needed.update(made.operands)
    return needed


def _flat(value: ModelValue) -> list[ModelValue]:
    if isinstance(value, tuple):
        return [leaf for each in value for leaf in _flat(each)]
    return [] if value is None else [value]


def _leaves(shape: HloShape) -> list[Shape]:
    if isinstance(shape, tuple):
        return [leaf for each in shape for leaf in _leaves(each)]
    return [] if shape is None else [shape]


def refuse_not_done(module: HloModule, lowered: Lowered) -> None:
    """Raise ImportFileError if something cannot be done: all of it, a line for each opcode."""
    if not lowered.not_done:
        return
    lines = []
    for opcode in dict.fromkeys(each.opcode for each in lowered.not_done):
        found = [each for each in lowered.not_done if each.opcode == opcode]
        line, column = line_and_column(module.text, found[0].offset)
        lines.append(
            f"{opcode} ({len(found)}, first at line {line}, column {column}): {found[0].why}"
        )
    raise ImportFileError("cannot be done on the chip: " + "; ".join(lines))
