"""An HLO module as it stands in its text: computations of instructions, nothing interpreted.

Attributes stay text until `attributes` reads those that an operation has, because most of them
(metadata, sharding, configurations of a backend) mean nothing to a simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from systolic.layout import Shape

HloShape: TypeAlias = "Shape | tuple[HloShape, ...] | None"
"""The shape of a value: an array, a tuple of shapes, or None of a token."""


@dataclass(frozen=True, slots=True)
class HloInstruction:
    """One line of a computation.

    name: without the percent sign. argument: what stands between the parentheses of a constant or a
    parameter. attributes: text by key. offset: where the line's name stands in the text.
    """

    name: str
    opcode: str
    shape: HloShape
    operands: tuple[str, ...]
    argument: str
    attributes: Mapping[str, str]
    offset: int

    @property
    def array(self) -> Shape:
        """Return the shape, which must be an array's."""
        assert isinstance(self.shape, Shape)
        return self.shape

    @property
    def title(self) -> str:
        """Return the name by which users know it: the metadata's, else its own."""
        metadata = self.attributes.get("metadata", "")
        _, found, rest = metadata.partition('op_name="')
        return rest.partition('"')[0] if found else self.name


@dataclass(frozen=True, slots=True)
class Computation:
    """Instructions in the order of the text, each after its operands; one of them is the root."""

    name: str
    instructions: tuple[HloInstruction, ...]
    root: HloInstruction
    offset: int

    @property
    def parameters(self) -> tuple[HloInstruction, ...]:
        """Return the parameters by number."""
        found = [each for each in self.instructions if each.opcode == "parameter"]
        return tuple(sorted(found, key=lambda each: int(each.argument)))


@dataclass(frozen=True, slots=True)
class HloModule:
    """All computations by name, and the one at which a run begins.

    text: the whole text, to which offsets refer. layouts: the shapes of the parameters and of the
    result that `entry_computation_layout` gives, which says how inputs and outputs lie (None: it is
    not there, and the entry's own shapes hold).
    """

    name: str
    computations: Mapping[str, Computation]
    entry: Computation
    text: str
    layouts: tuple[tuple[HloShape, ...], HloShape] | None = None
