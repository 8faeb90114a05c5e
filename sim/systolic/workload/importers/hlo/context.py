"""What a row of an HLO opcode sees: the form that it adds to, and what stands around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from systolic.layout import Shape
from systolic.workload.importers.form import ModelForm, ModelValue
from systolic.workload.importers.hlo.inference import called
from systolic.workload.importers.hlo.module import Computation, HloInstruction, HloShape


class CannotLowerError(Exception):
    """Raised by a row that meets a form of its opcode that graphs cannot say."""


@dataclass(slots=True)
class HloContext:
    """The form, the computations of the module, and the shapes that the text gives the operands."""

    computations: Mapping[str, Computation]
    form: ModelForm = field(default_factory=ModelForm)
    operand_shapes: list[HloShape] = field(default_factory=list)
    run: Callable[[Computation, list[ModelValue]], ModelValue] | None = None

    def begin(self, shapes: list[HloShape]) -> None:
        """Begin an instruction whose operands have these shapes in the text."""
        self.operand_shapes = shapes

    def named(self, made: HloInstruction, key: str) -> Computation:
        """Return the computation that an attribute names."""
        return called(made, key, self.computations)

    def tried(self, region: Computation, values: list[ModelValue]) -> ModelValue:
        """Return what a computation makes of known values."""
        assert self.run is not None, "the interpreter gives it"
        return self.run(region, values)


HloRow: TypeAlias = Callable[[HloContext, HloInstruction, list[ModelValue]], ModelValue]


def one_number(value: ModelValue) -> float | None:
    """Return the number that a known value is everywhere; None if there is none."""
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    if any(n > 1 and step for n, step in zip(value.shape, value.strides, strict=True)):
        return None
    return float(value.flat[0])


def is_integer(shape: Shape) -> bool:
    """Return whether elements are integers, pred among them."""
    return shape.type.integer_range is not None
