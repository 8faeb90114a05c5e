"""Do a module's named arrays have a place on a chip? What every run of a program file must know.

Not here: whether boxes and accesses agree in size (`systolic.isa.formats.module`), which no chip
decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa.footprint import Footprint
from systolic.isa.formats.module import Binding, Module
from systolic.isa.legality.access import check_access


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
