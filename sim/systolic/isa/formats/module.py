"""A Module: a program, the chip it was written for, and where its named inputs and outputs lie.

This is what a program file holds, in text (`systolic.isa.formats.write_text`) or binary
(`systolic.isa.formats.binary`). The machine runs the program alone; bindings say which numpy array
goes where before a run, and which comes from where after it. Two checks of bindings: do boxes and
accesses agree in size, which no chip decides, and have the arrays a place on a chip. No values
here, and nothing is read or written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa.access import Access
from systolic.isa.footprint import Footprint
from systolic.isa.legality.accesses import check_access
from systolic.isa.program import Program

IndexBox = tuple[tuple[int, int], ...]
"""First index and the one after the last, for each axis of an array."""


@dataclass(frozen=True, slots=True)
class Part:
    """A box of an array and the access that holds it.

    The elements of the box in row-major order are the elements of the access in its order:
    partition by partition, and inside a partition with the last pair fastest.
    """

    box: IndexBox
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


def check_bindings_on(module: Module, chip: Chip) -> None:
    """Raise ProgramError unless every element of every array has one type and a place on `chip`.

    Inputs must not share bytes with one another: which of them would be there at cycle 0?
    """
    for kind, bindings in (("input", module.inputs), ("output", module.outputs)):
        for binding in bindings:
            _check_places(f'{kind} "{binding.name}"', binding, chip)
    _check_apart(module.inputs)


def element_type(binding: Binding) -> str:
    """Return the XLA name of a binding's element type; it has at least one part."""
    return binding.parts[0].access.dtype


def _check_places(where: str, binding: Binding, chip: Chip) -> None:
    if not binding.parts:
        raise ProgramError(f"{where}: has no place: needed at least one access")
    for part in binding.parts:
        check_access(where, part.access, chip)
    types = sorted({part.access.dtype for part in binding.parts})
    if len(types) > 1:
        raise ProgramError(f"{where}: needed one element type, found {' and '.join(types)}")
    _check_covered(where, binding)


def _check_covered(where: str, binding: Binding) -> None:
    if binding.is_whole:
        return
    held = sum(access.partitions * access.elements for access in binding.accesses)
    if held < math.prod(binding.shape):
        raise ProgramError(
            f"{where}: has {math.prod(binding.shape)} elements, its parts only {held}"
        )
    covered = np.zeros(binding.shape, np.bool_)
    for part in binding.parts:
        covered[tuple(slice(*pair) for pair in part.box)] = True
    if not covered.all():
        index = [int(i) for i in np.unravel_index(np.argmin(covered), covered.shape)]
        raise ProgramError(f"{where}: element {index} of {list(binding.shape)} lies in no part")


def _check_apart(inputs: Iterable[Binding]) -> None:
    for (one, mine), (other, theirs) in _neighbours(inputs):
        if mine.meets(theirs):
            raise ProgramError(f'input "{other}" lies on bytes of input "{one}"')


Placed = tuple[str, Footprint]


def _neighbours(inputs: Iterable[Binding]) -> Iterator[tuple[Placed, Placed]]:
    """Yield pairs of parts of different inputs whose bytes, partitions aside, overlap in range."""
    placed = [(b.name, Footprint.of(access)) for b in inputs for access in b.accesses]
    placed.sort(key=lambda item: (item[1].buffer, item[1].low))
    live: list[Placed] = []
    for item in placed:
        name, footprint = item
        live = [o for o in live if o[1].buffer == footprint.buffer and o[1].high > footprint.low]
        yield from ((other, item) for other in live if other[0] != name)
        live.append(item)
