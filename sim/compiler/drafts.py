"""Drafts: instructions in the order of the tasks, with whom each must wait for, not yet how.

What the fourth pass (`schedule`) writes and the fifth (`sync`) reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sim.compiler.hazards import Key, Ref, Region, needed
from sim.isa import Instruction, MatMul


@dataclass(frozen=True, slots=True)
class Draft:
    """An instruction without waits and posts: whom it must wait for, and the keys it may post.

    layer: the operation it belongs to. data: how many of `needs`, counted from the first, are
    there because it reads what they write; the others because it overwrites what they use.
    """

    instruction: Instruction
    layer: str
    needs: tuple[Ref, ...]
    keys: tuple[Key, ...]
    data: int


@dataclass(slots=True)
class Drafts:
    """Drafts so far; `layer` is the operation the next one belongs to."""

    layer: str = ""
    found: list[Draft] = field(default_factory=list)

    def add(
        self, instruction: Instruction, reads: Iterable[Region], writes: Iterable[Region], *,
        accumulates: bool = False,
    ) -> None:  # fmt: skip
        """Add an instruction that reads and writes these regions (accumulates: adds to them)."""
        step, queue = len(self.found), instruction.queue
        refs: list[Ref] = []
        keys: list[Key] = []
        for region in reads:
            refs += region.read(step, queue, streams=isinstance(instruction, MatMul))
            keys.append(region.readers[-1].key)
        data = len(dict.fromkeys(needed(refs, queue)))
        for region in writes:
            refs += region.write(step, queue, accumulates=accumulates)
            keys.append(region.writers[-1].key)
        needs = tuple(dict.fromkeys(needed(refs, queue)))
        self.found.append(Draft(instruction, self.layer, needs, tuple(dict.fromkeys(keys)), data))
