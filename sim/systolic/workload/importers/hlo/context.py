"""What a row of an HLO opcode sees: the form that it adds to, and what stands around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from systolic.workload.importers.form import ModelForm, ModelValue
from systolic.workload.importers.hlo.inference import called
from systolic.workload.importers.hlo.module import Computation, HloInstruction, HloShape


@dataclass(slots=True)
class HloContext:
    """The form, the computations of the module, and the shapes that the text gives the operands.

    tiled: of a tensor that is a reduction of windows side by side its source, the dimensions along
    which windows lie, and the reduction.
    """

    computations: Mapping[str, Computation]
    form: ModelForm = field(default_factory=ModelForm)
    operand_shapes: list[HloShape] = field(default_factory=list)
    tiled: dict[str, tuple[ModelValue, tuple[int, ...], str]] = field(default_factory=dict)
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
