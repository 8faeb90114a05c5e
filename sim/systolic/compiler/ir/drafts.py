"""Drafts: instructions in the order of the tasks, and the instructions each must wait for.

The fourth pass (`schedule`) writes drafts. The fifth pass (`sync`) makes waits and posts of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from systolic.compiler.ir.access_cuts import cut
from systolic.compiler.ir.dependencies import EVERYWHERE, Key, Ref, Region, needed
from systolic.hw.spec.access_rules import AccessRules
from systolic.isa import Instruction, MatMul, effects
from systolic.isa.instruction import Event
from systolic.spans import Interval


@dataclass(frozen=True, slots=True)
class Draft:
    """An instruction without waits and posts: the events it needs, and the keys it may post.

    layer: the operation it belongs to. data: how many of `needs`, counted from the first, write
    operands of this instruction; the others use bytes that it overwrites. parts: the key that is
    posted for every row or partition instead of once, and how many there are.
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
    """Collects drafts; each belongs to the layer that was begun last.

    rules: what an instruction that names more than an access can is cut for.
    """

    rules: AccessRules = field(default_factory=AccessRules)
    found: list[Draft] = field(default_factory=list)
    _layer: str = ""

    def begin(self, layer: str) -> None:
        """Begin the layer of an operation, to which the following drafts belong."""
        self._layer = layer

    def add(
        self,
        instruction: Instruction,
        reads: Iterable[Region],
        writes: Iterable[Region],
        *,
        accumulates: bool = False,
        parts: tuple[Event, int] | None = None,
        part: int = 0,
        leads: bool = False,
        follows: bool = False,
    ) -> None:
        """Add an instruction that reads and writes these regions.

        accumulates: it adds to the words it writes. parts: its results are posted part by part.
        part: it needs only that many parts of its operands (0: all). leads: it waits for all
        writers of what it reads, whatever bytes it takes. follows: it needs to wait for nothing,
        since one that leads stands before it in its queue.

        If it names more than an access can, there is a draft for each of its parts.
        """
        read, written = list(reads), list(writes)
        for each in cut(instruction, self.rules):
            if follows:
                self._follow(each, read, written)
            else:
                all_ = EVERYWHERE if leads else None
                self._add(
                    each, read, written, all_, accumulates=accumulates, parts=parts, part=part
                )

    def _follow(self, instruction: Instruction, reads: list[Region], writes: list[Region]) -> None:
        """Add an instruction that needs to wait for nothing."""
        step, queue = len(self.found), instruction.queue
        keys: list[Key] = []
        for region in reads:
            region.note_reader(step, queue)
            keys.append(region.readers[-1].key)
        for region in writes:
            region.write(step, queue, touched=region.touched(instruction, effects.writes))
            keys.append(region.writers[-1].key)
        self.found.append(Draft(instruction, self._layer, (), tuple(dict.fromkeys(keys)), 0))

    def _add(
        self,
        instruction: Instruction,
        reads: list[Region],
        writes: list[Region],
        wanted: Interval | None,
        *,
        accumulates: bool,
        parts: tuple[Event, int] | None,
        part: int,
    ) -> None:
        step, queue = len(self.found), instruction.queue
        refs: list[Ref] = []
        keys: list[Key] = []
        for region in reads:
            touched = wanted or region.touched(instruction, effects.reads)
            streams = isinstance(instruction, MatMul)
            found = region.read(step, queue, streams=streams, touched=touched)
            refs += [ref._replace(part=part) for ref in found] if part else found
            keys.append(region.readers[-1].key)
        needs = dict.fromkeys(needed(refs, queue))
        data = len(needs)
        for region in writes:
            touched = region.touched(instruction, effects.writes)
            before = region.write(step, queue, accumulates=accumulates, touched=touched)
            others = [ref for ref in before if ref.step != step]  # it may read what it writes
            needs.update(dict.fromkeys(needed(others, queue)))
            keys.append(region.writers[-1].key)
        posted = None if parts is None else (keys[-1], *parts)
        keys = list(dict.fromkeys(keys))
        self.found.append(Draft(instruction, self._layer, tuple(needs), tuple(keys), data, posted))
