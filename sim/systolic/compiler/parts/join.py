"""Programs of parts become one: places in DRAM, semaphores, and what waits for an earlier part.

A part's program is taken as it is; its copies get the addresses of this run's tensors, and its
semaphores get numbers of their own. Between parts only memory has to be in order: the first users
of a page wait for the last users before them (`memory_use`), and in DRAM those that read a box for
the parts that wrote some of it. So a part begins while others end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace

from systolic.compiler.compiled import CompiledGraph, PlacedPart
from systolic.compiler.parts.memory_use import MemoryPage, MemoryUse, Tensors, memory_use
from systolic.compiler.sync.semaphores import Saving, Synchronised
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Instruction, Post, Program, Wait
from systolic.spans import Interval

Users = tuple[int, ...]
"""Instructions of one queue, by their numbers in the joined program."""


@dataclass(slots=True)
class Joiner:
    """Joins parts in turn.

    instructions, layers, names: of the program so far, and of its semaphores. needs: for each
    instruction the users that it waits for, each with their queue. pages: the last users of each
    page on the chip.
    """

    chip: Chip
    instructions: list[Instruction] = field(default_factory=list)
    layers: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    needs: dict[int, dict[Users, str]] = field(default_factory=dict)
    pages: dict[MemoryPage, list[Users]] = field(default_factory=dict)
    _known_uses: dict[int, tuple[Tensors, MemoryUse]] = field(default_factory=dict)

    def add(self, placed: PlacedPart, bases: Sequence[int]) -> None:
        """Add a part's program.

        bases: the first bytes of its tensors in DRAM, in the order of `known`, and of its scratch.
        """
        compiled, first = placed.compiled, placed.first
        tensors, found = self.known(compiled)
        spans = [*(span for _, span in tensors.spans), scratch_span(compiled)]
        shifts = [base - span.first for base, span in zip(bases, spans, strict=True)]
        semaphores = len(self.names)
        program = compiled.program
        self.names += [f"{len(self.names) + n}" for n in range(len(program.semaphores))]
        for layer, each in zip(compiled.synchronised.layers, program.instructions, strict=True):
            moved = _moved(each, tensors, shifts) if isinstance(each, DmaCopy) else each
            self.instructions.append(_renumbered(moved, semaphores))
            self.layers.append(placed.layers.get(layer, layer))
        for page, firsts in found.firsts.items():
            if page.buffer is not Buffer.DRAM:
                self.wait_for(self.pages.get(page, ()), [first + n for n in firsts])
                self.pages[page] = [tuple(first + n for n in users) for users in found.lasts[page]]

    def wait_for(self, users: Iterable[Users], firsts: Iterable[int]) -> None:
        """Let instructions wait for all of some users."""
        for waiting in firsts:
            queue = self.instructions[waiting].queue
            needs = self.needs.setdefault(waiting, {})
            for each in users:
                other = self.instructions[each[0]].queue
                in_order = other == queue and (queue == "pe_array" or queue.startswith("dma"))
                if not in_order:
                    needs[each] = other

    def known(self, compiled: CompiledGraph) -> tuple[Tensors, MemoryUse]:
        """Return where a compiled part has its tensors, and how it uses memory."""
        if id(compiled) not in self._known_uses:
            tensors = Tensors(tensor_spans(compiled))
            found = memory_use(compiled.scheduled.drafts, self.chip, tensors)
            self._known_uses[id(compiled)] = tensors, found
        return self._known_uses[id(compiled)]

    def program(self, name: str, savings: Sequence[Saving]) -> Synchronised:
        """Return the program of all parts."""
        gates: dict[Users, int] = {}
        passed: dict[str, set[Users]] = {}
        found = list(self.instructions)
        for waiting in sorted(self.needs):
            each = found[waiting]
            known = passed.setdefault(each.queue, set())
            waits = []
            for users, queue in self.needs[waiting].items():
                if users not in known:
                    known.add(users)
                    gate = gates.setdefault(users, len(self.names) + len(gates))
                    times = self.chip.dma.posts_per_copy if queue.startswith("dma") else 1
                    waits.append(Wait(gate, len(users) * times))
            found[waiting] = replace(each, waits=(*each.waits, *waits))
        for users, gate in gates.items():
            for user in users:
                each = found[user]
                found[user] = replace(each, posts=(*each.posts, Post(gate)))
        names = (*self.names, *(f"part {n}" for n in range(len(gates))))
        total = Saving(*(sum(each) for each in zip(*map(astuple, savings), strict=True)))
        return Synchronised(Program(name, tuple(found), names), tuple(self.layers), total)


def tensor_spans(compiled: CompiledGraph) -> tuple[tuple[str, Interval], ...]:
    """Return the bytes of the tensors of a part in DRAM, ascending."""
    ends = {*compiled.graph.inputs, *compiled.graph.outputs}
    found = [
        (place.name, Interval(place.base, place.base + place.size_bytes))
        for place in compiled.layers.dram
        if place.name in ends
    ]
    return tuple(sorted(found, key=lambda each: each[1].first))


def scratch_span(compiled: CompiledGraph) -> Interval:
    """Return the bytes of DRAM that a part uses for itself."""
    own = {name for name, _ in tensor_spans(compiled)}
    taken = {place.start for place in compiled.layers.dram if place.name in own}
    others = [place for place in compiled.layers.dram if place.start not in taken]
    spilled = compiled.scheduled.dram_bytes
    end = max((p.base + p.size_bytes for p in compiled.layers.dram), default=0)
    first = min((place.base for place in others), default=end)
    return Interval(first, max(spilled, end) if others or spilled > end else first)


def _moved(copy: DmaCopy, tensors: Tensors, shifts: Sequence[int]) -> DmaCopy:
    """Return a copy at the places of this run."""

    def shifted(access: Access) -> Access:
        if access.buffer is not Buffer.DRAM:
            return access
        shift = shifts[tensors.number(access.low_and_high[0])]
        return replace(access, start=access.start + shift)

    return replace(copy, source=shifted(copy.source), target=shifted(copy.target))


def _renumbered(each: Instruction, first: int) -> Instruction:
    """Return an instruction whose semaphores are numbered from another first one on."""
    if not first or not (each.waits or each.posts):
        return each
    waits = tuple(Wait(wait.semaphore + first, wait.value) for wait in each.waits)
    posts = tuple(replace(post, semaphore=post.semaphore + first) for post in each.posts)
    return replace(each, waits=waits, posts=posts)
