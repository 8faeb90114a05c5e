"""A Module: a program, the chip it was written for, and where its named inputs and outputs lie.

This is what a program file holds, in text (`systolic.isa.formats.write_text`) or binary
(`systolic.isa.formats.binary`). The machine runs the program alone; bindings say which numpy array
goes where before a run, and which comes from where after it. No values here, and nothing is read
or written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from systolic.errors import ProgramError
from systolic.isa.access import Access
from systolic.isa.program import Program

Box = tuple[tuple[int, int], ...]
"""First index and the one after the last, for each axis of an array."""


@dataclass(frozen=True, slots=True)
class Part:
    """A box of an array and the access that holds it.

    The elements of the box in row-major order are the elements of the access in its order:
    partition by partition, and inside a partition with the last pair fastest.
    """

    box: Box
    access: Access


@dataclass(frozen=True, slots=True)
class Binding:
    """A named array: its numpy shape, and the parts it is made of."""

    name: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]

    @classmethod
    def whole(cls, name: str, shape: tuple[int, ...], access: Access) -> Binding:
        """Return an array that lies in one access."""
        return cls(name, shape, (Part(tuple((0, size) for size in shape), access),))

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Return the accesses of all parts."""
        return tuple(part.access for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """Return whether a single part holds the whole array."""
        return len(self.parts) == 1 and self.parts[0].box == tuple((0, n) for n in self.shape)


@dataclass(frozen=True, slots=True)
class Module:
    """A program with its inputs and outputs; `chip` names the chip it was written for ("": any).

    lines: the line of each instruction in the text it was read from; none if it was not text. Two
    modules that differ in these alone are the same.
    """

    program: Program
    inputs: tuple[Binding, ...] = ()
    outputs: tuple[Binding, ...] = ()
    chip: str = ""
    lines: tuple[int, ...] = field(default=(), compare=False)

    @property
    def input_accesses(self) -> tuple[Access, ...]:
        """Return every access that has contents at cycle 0."""
        return tuple(access for binding in self.inputs for access in binding.accesses)


def as_module(program: Program | Module) -> Module:
    """Return the module; a bare program has no bindings."""
    return program if isinstance(program, Module) else Module(program)


def check_bindings(module: Module) -> None:
    """Raise ProgramError if names repeat, or a part and its access differ in size."""
    for kind, bindings in (("input", module.inputs), ("output", module.outputs)):
        seen: set[str] = set()
        for binding in bindings:
            if binding.name in seen:
                raise ProgramError(f'{kind} "{binding.name}" is bound twice')
            seen.add(binding.name)
            _check_binding(kind, binding)


def _check_binding(kind: str, binding: Binding) -> None:
    where = f'{kind} "{binding.name}"'
    if any(size < 0 for size in binding.shape):
        raise ProgramError(f"{where}: a shape has no negative sizes, found {binding.shape}")
    for part in binding.parts:
        box = ", ".join(f"{first}:{stop}" for first, stop in part.box)
        if len(part.box) != len(binding.shape):
            raise ProgramError(
                f"{where}: [{box}] has {len(part.box)} axes, its shape {len(binding.shape)}"
            )
        for (first, stop), size in zip(part.box, binding.shape, strict=True):
            if not 0 <= first <= stop <= size:
                raise ProgramError(f"{where}: [{box}] does not lie in the shape {binding.shape}")
        elements = math.prod(stop - first for first, stop in part.box)
        held = part.access.partitions * part.access.elements
        if elements != held:
            raise ProgramError(
                f"{where}: [{box}] has {elements} elements, {part.access} has {held}"
            )
