"""A lane step: one instruction of an engine for each element of a matrix, as a value.

It says which instruction, with which settings, and which fields take operands; engine and accesses
come later (`schedule`). Two steps that follow one another are joined if one instruction does the
same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from systolic.isa.instruction import Activate, Copy, OnEngine, TensorScalar, TensorTensor
from systolic.isa.opcodes import BY_CLASS

NOTHING = -0.0
"""A bias that changes no number: adding +0.0 would make +0.0 of -0.0."""


@dataclass(frozen=True, slots=True)
class LaneStep:
    """An instruction without engine and accesses.

    first: the field of the operand that the step works on. others: the fields of further operands,
    in their order.
    """

    cls: type[OnEngine] = Copy
    settings: Mapping[str, Any] = field(default_factory=dict)
    first: str = "source"
    others: tuple[str, ...] = ()

    def __call__(self, **fields: Any) -> OnEngine:
        """Return the instruction with these fields: engine, operands and target."""
        return self.cls(**self.settings, **fields)

    def per_lane(self, name: str) -> bool:
        """Return whether an operand's field takes one element for each lane."""
        return name in BY_CLASS[self.cls].operands.per_lane


COPY = LaneStep()


def activate(function: str, scale: float = 1.0, bias: float = NOTHING) -> LaneStep:
    """Return function(x * scale + bias)."""
    return LaneStep(Activate, {"function": function, "scale": scale, "bias": bias})


def with_each(op: str, *, first: str = "left") -> LaneStep:
    """Return left op right, element by element; `first` is the operand that is worked on."""
    other = "right" if first == "left" else "left"
    return LaneStep(TensorTensor, {"op": op}, first, (other,))


def with_lane(op: str, *, reverse: bool = False) -> LaneStep:
    """Return x op scalar, or scalar op x, with one scalar for each lane."""
    return LaneStep(TensorScalar, {"op": op, "reverse": reverse}, others=("scalar",))


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
    return None


def _in_two_stages(before: LaneStep, after: LaneStep) -> LaneStep | None:
    if before.settings["op"] == "power":  # of integers it gives a float
        return None
    renamed = {"op": "then", "reverse": "then_reverse", "scalar": "other"}
    more = {renamed[name]: value for name, value in after.settings.items()}
    others = (*before.others, *(renamed[name] for name in after.others))
    return LaneStep(TensorScalar, {**before.settings, **more}, others=others)


def _as_bias(before: LaneStep, after: LaneStep) -> LaneStep | None:
    """Return the function of a sum, if nothing else is done to the sum."""
    plain = after.settings["scale"] == 1.0 and str(after.settings["bias"]) == str(NOTHING)
    if before.settings["op"] != "add" or not plain:
        return None
    settings = {"function": after.settings["function"]}
    if not before.others:
        settings["bias"] = before.settings["scalar"]
    return LaneStep(Activate, settings, others=("bias",) if before.others else ())
