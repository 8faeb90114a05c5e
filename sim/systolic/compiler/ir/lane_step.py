"""A lane step: one instruction of an engine for each element of a matrix, as a value.

It says which instruction, with which settings, and which fields take operands; engine and accesses
come later (`schedule`). Two steps that follow one another are joined if one instruction does the
same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from systolic.isa.instruction import (
    Activate,
    ActivateReduce,
    Copy,
    CopyPredicated,
    OnEngine,
    Requantise,
    ScalarTensorTensor,
    Select,
    TensorScalar,
    TensorTensor,
)
from systolic.isa.opcodes import BY_CLASS
from systolic.spans import Span

NOTHING = -0.0
"""A bias that changes no number: adding +0.0 would make +0.0 of -0.0."""


@dataclass(frozen=True, slots=True)
class LaneStep:
    """An instruction without engine and accesses.

    first: the field of the operand that the step works on. others: the fields of further operands,
    in their order. onto: the first operand is copied to the target before the instruction, which
    keeps some of it.
    """

    cls: type[OnEngine] = Copy
    settings: Mapping[str, Any] = field(default_factory=dict)
    first: str = "source"
    others: tuple[str, ...] = ()
    onto: bool = False

    def __call__(self, **fields: Any) -> OnEngine:
        """Return the instruction with these fields: engine, operands and target."""
        return self.cls(**self.settings, **fields)

    def with_number(self, name: str, number: float) -> LaneStep:
        """Return the step with a number in the place of one of its further operands."""
        others = tuple(other for other in self.others if other != name)
        return LaneStep(self.cls, {**self.settings, name: number}, self.first, others)

    def per_lane(self, name: str) -> bool:
        """Return whether an operand's field takes one element for each lane."""
        return name in BY_CLASS[self.cls].operands.per_lane

    @property
    def results(self) -> tuple[str, ...]:
        """Return the fields that take what is written once for each lane."""
        return BY_CLASS[self.cls].operands.results

    def at(self, row: int, col: int) -> LaneStep:
        """Return the step for the part of its result that begins with a row and a column."""
        if self.cls is not Select:
            return self
        return replace(self, settings={**self.settings, "base": self._affine(row, col)})

    def selects(self, rows: Span, cols: Span) -> bool:
        """Return whether rows and columns of the result take any element of the step's operand.

        They may take none only of a select, which fills them with its other value.
        """
        corners = (
            self._affine(row, col)
            for row in (rows.first, rows.stop - 1)
            for col in (cols.first, cols.stop - 1)
        )
        return self.cls is not Select or max(corners) >= 0

    def _affine(self, row: int, col: int) -> int:
        """Return what a select compares with 0 in a row and a column of its result."""
        known = self.settings
        found: int = known["base"] + known["per_partition"] * row + known["per_element"] * col
        return found


COPY = LaneStep()


def activate(function: str, scale: float = 1.0, bias: float = NOTHING) -> LaneStep:
    """Return function(x * scale + bias)."""
    return LaneStep(Activate, {"function": function, "scale": scale, "bias": bias})


def summed(step: LaneStep) -> LaneStep | None:
    """Return the step whose instruction adds its results up as well; None if there is none."""
    return replace(step, cls=ActivateReduce) if step.cls is Activate else None


def with_each(op: str, *, first: str = "left") -> LaneStep:
    """Return left op right, element by element; `first` is the operand that is worked on."""
    other = "right" if first == "left" else "left"
    return LaneStep(TensorTensor, {"op": op}, first, (other,))


def with_lane(op: str, *, reverse: bool = False) -> LaneStep:
    """Return x op scalar, or scalar op x, with one scalar for each lane."""
    return LaneStep(TensorScalar, {"op": op, "reverse": reverse}, others=("scalar",))


def requantise(ends: tuple[int, int]) -> LaneStep:
    """Return x * scale as the nearest integer between two ends, with one scale for each lane."""
    return LaneStep(Requantise, {"lowest": ends[0], "highest": ends[1]}, others=("scale",))


def select() -> LaneStep:
    """Return a copy of one operand, over which another is copied where a predicate is not 0.

    The operands are what is taken where it is 0, the predicate, and what is taken elsewhere.
    """
    return LaneStep(CopyPredicated, first="target", others=("predicate", "source"), onto=True)


def select_up_to(offset: int, other: float, *, turned: bool, upper: bool = False) -> LaneStep:
    """Return a select of the elements whose column is at most their row + offset.

    turned: of a transposed matrix, so of those whose row is at most their column + offset. upper:
    at least instead.
    """
    down, along = (-1, 1) if turned != upper else (1, -1)
    settings = {
        "compare": "greater_equal",
        "base": -offset if upper else offset,
        "per_partition": down,
        "per_element": along,
        "other": other,
    }
    return LaneStep(Select, settings, first="value")


ALONG_DIAGONAL = LaneStep(
    Select, {"compare": "equal", "base": 0, "per_partition": 1, "per_element": -1}, first="value"
)
"""A select of the elements whose column is their row; the others are 0."""


def joined(before: LaneStep, after: LaneStep, dtype: str) -> LaneStep | None:
    """Return one step that does both; None if there is none.

    dtype: of the result of `before`, in which it loses nothing: f32 of floats, s32 of integers.
    """
    if before.cls is Copy:
        return after
    if before.cls is TensorScalar and "then" not in before.settings:
        if after.cls is TensorScalar and "then" not in after.settings:
            return _in_two_stages(before, after)
        if after.cls is Activate and dtype == "f32":
            return _as_bias(before, after)
        if after.cls is TensorTensor:
            return _with_tensor(before, after)
        if after.cls is Requantise:
            return _biased(before, after)
    return None


def _in_two_stages(before: LaneStep, after: LaneStep) -> LaneStep | None:
    if before.settings["op"] == "power":  # of integers it gives a float
        return None
    renamed = {"op": "then", "reverse": "then_reverse", "scalar": "other"}
    more = {renamed[name]: value for name, value in after.settings.items()}
    others = (*before.others, *(renamed[name] for name in after.others))
    return LaneStep(TensorScalar, {**before.settings, **more}, others=others)


def _with_tensor(before: LaneStep, after: LaneStep) -> LaneStep | None:
    """Return one step for x op scalar, and what comes out with each element of a tensor."""
    if before.settings["op"] == "power":  # of integers it gives a float
        return None
    settings = {
        **before.settings,
        "then": after.settings["op"],
        "then_reverse": after.first == "right",
    }
    return LaneStep(ScalarTensorTensor, settings, others=(*before.others, "tensor"))


def _as_bias(before: LaneStep, after: LaneStep) -> LaneStep | None:
    """Return the function of a sum, if nothing else is done to the sum."""
    plain = after.settings["scale"] == 1.0 and str(after.settings["bias"]) == str(NOTHING)
    if before.settings["op"] != "add" or not plain:
        return None
    settings = {"function": after.settings["function"]}
    if not before.others:
        settings["bias"] = before.settings["scalar"]
    return LaneStep(Activate, settings, others=("bias",) if before.others else ())


def _biased(before: LaneStep, after: LaneStep) -> LaneStep | None:
    """Return the requantisation of a sum."""
    if before.settings["op"] != "add":
        return None
    settings = dict(after.settings)
    if not before.others:
        settings["bias"] = before.settings["scalar"]
    return LaneStep(Requantise, settings, others=(*(["bias"] if before.others else []), "scale"))
