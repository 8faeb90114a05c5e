"""The memories of a chip of several cores: buffers of each, and the DRAM that all share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.hw.spec.places import core, place_of
from systolic.isa import Access, Buffer
from systolic.isa.instruction import DmaCopy, DmaMove
from systolic.isa.joint import JointProgram
from systolic.isa.legality.chip_program import copy_ends
from systolic.machine.memory import Image, Memory, cast


class ChipMemory:
    """All memories of a chip of several cores, zero at first, then the images.

    cores: the memory of each core; its DRAM is the chip's.

    Args:
        joint: what runs, which says how much of DRAM is used.
        images: what lies where at cycle 0, by the name of the core ("core1"; DRAM: of any).

    """

    def __init__(self, joint: JointProgram, images: Mapping[str, Iterable[Image]]) -> None:
        chip, program = joint.chip, joint.program
        given = {at: tuple(of_core) for at, of_core in images.items()}
        in_dram = [i for each in given.values() for i in each if i.access.buffer is Buffer.DRAM]
        self.dram = Memory(chip.core_chips[0], program, in_dram)
        self.cores = tuple(
            Memory(each, program, _on_core(given.get(str(core(number)), ())), self.dram)
            for number, each in enumerate(chip.core_chips)
        )

    def of(self, at: str, own: str = "") -> Memory:
        """Return the memory of a core by its name, "": `own`'s; a processor has DRAM only."""
        place = place_of(at or own)
        return self.dram if place is None or place.kind != "core" else self.cores[place.number]

    def copy(self, copy: DmaCopy, own: str) -> npt.NDArray[Any] | None:
        """Make a copy of the queue of a core or processor; return its elements as written.

        [elements], in the order of its accesses; None for code, which has no values.
        """
        if isinstance(copy, DmaMove) and copy.brings_code:
            return None
        ends = copy_ends(copy)
        _, at, source = ends[0]
        moved = self.of(at, own).read(source).ravel()
        for _, at, access in ends[1:]:
            memory = self.of(at, own)
            if isinstance(copy, DmaMove) and copy.accumulate:
                moved = added(moved, memory.read(access).ravel(), access)
            memory.write(access, moved)
        return moved


def added(moved: npt.NDArray[Any], there: npt.NDArray[Any], access: Access) -> npt.NDArray[Any]:
    """Return the sums of what is there and what is moved: one rounding; integers wrap."""
    if np.issubdtype(there.dtype, np.integer):
        with np.errstate(over="ignore"):
            total: npt.NDArray[Any] = there + moved
            return total
    with np.errstate(all="ignore"):
        # float32 has twice the digits of the shorter types and two more: it rounds nothing twice.
        return cast(there.astype(np.float32) + moved.astype(np.float32), access.dtype)


def _on_core(images: Iterable[Image]) -> list[Image]:
    return [image for image in images if image.access.buffer is not Buffer.DRAM]
