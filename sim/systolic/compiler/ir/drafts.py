"""Drafts: instructions in the order of the tasks, with what each must wait for, not yet how.

What the fourth pass (`schedule`) writes and the fifth (`sync`) reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from systolic.compiler.ir.dependencies import Key, Ref, Region, needed
from systolic.isa import Instruction, MatMul
from systolic.isa.instruction import Event


@dataclass(frozen=True, slots=True)
class Draft:
    """An instruction without waits and posts: what it must wait for, and the keys it may post.

    layer: the operation it belongs to. data: how many of `needs`, counted from the first, are
    there because it reads what they write; the others because it overwrites what they use. parts:
    the key that is posted for every row or partition instead of once, and how many there are.
    """

    instruction: Instruction
    layer: str
    needs: tuple[Ref, ...]
    keys: tuple[Key, ...]
    data: int
    parts: tuple[Key, Event, int] | None = None

    def posts_of(self, key: Key) -> tuple[Event, int]:
        """Return on which event a key is posted, and how often."""
        if self.parts and self.parts[0] == key:
            return self.parts[1:]
        return "done", 1


@dataclass(slots=True)
class Drafts:
    """Drafts so far, each of the layer that has begun."""

    found: list[Draft] = field(default_factory=list)
    _layer: str = ""

    def begin(self, layer: str) -> None:
        """Say to which operation the drafts that follow belong."""
        self._layer = layer

    def add(
        self, instruction: Instruction, reads: Iterable[Region], writes: Iterable[Region], *,
        accumulates: bool = False, parts: tuple[Event, int] | None = None, part: int = 0,
    ) -> None:  # fmt: skip
        """Add an instruction that reads and writes these regions.

        accumulates: adds to what it writes. parts: what it writes is posted so, part by part.
        part: it needs no more than so many parts of what it reads (0: all).
        """
        step, queue = len(self.found), instruction.queue
        refs: list[Ref] = []
        keys: list[Key] = []
        for region in reads:
            found = region.read(step, queue, streams=isinstance(instruction, MatMul))
            refs += [replace(ref, part=part) for ref in found] if part else found
            keys.append(region.readers[-1].key)
        data = len(dict.fromkeys(needed(refs, queue)))
        for region in writes:
            refs += region.write(step, queue, accumulates=accumulates)
            keys.append(region.writers[-1].key)
        needs = tuple(dict.fromkeys(needed(refs, queue)))
        posted = None if parts is None else (keys[-1], *parts)
        keys = list(dict.fromkeys(keys))
        self.found.append(Draft(instruction, self._layer, needs, tuple(keys), data, posted))
