"""A frame cut into tiles: which of its elements lie on which partition, and in which column.

Each mode of n indices is cut into blocks of partitions x columns: n = blocks * P * C, with a rest.
A tile has one block of every mode. Its partitions are the P of all modes, the outermost first; its
columns the C, and all inner modes of the frame. Where C does not divide the indices that a tile has
of its outermost partition mode, the last partition begins earlier, so that it too is full; only its
end is stored. An operand lies on the chip in the order of its own memory, so that its runs are as
long as they can be; the engine takes its elements in the order of the result. Repeated elements are
brought once for each partition. Elements with gaps between them may be brought with their gaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from systolic.compiler.places.modes import Mode, Modes, coalesce, stretch
from systolic.compiler.streams.work import FramePart, StreamFrame
from systolic.hw.datatypes import SIZE_BYTES
from systolic.isa.access import MAX_PAIRS, Access, Buffer, Pattern

StrideCounts = tuple[tuple[int, int], ...]


class Cut(NamedTuple):
    """How a frame is cut: columns and partitions of each mode, and how operands are brought.

    gaps: for each side, how many of its innermost modes are brought as one run, gaps included.
    """

    columns: tuple[int, ...]
    partitions: tuple[int, ...]
    gaps: tuple[int, ...]

    @property
    def block(self) -> tuple[int, ...]:
        """Return the indices of each mode that a tile has."""
        return tuple(c * p for c, p in zip(self.columns, self.partitions, strict=True))

    @property
    def lanes(self) -> tuple[int, int]:
        """Return on how many partitions a tile lies when it is loaded, and when it is stored."""
        return (math.prod(self.partitions),) * 2


class TurnCut(NamedTuple):
    """How a frame is cut whose tiles change partitions and columns on the way.

    block: the indices of each mode that a tile has. inside: on how many partitions they lie when
    the tile is loaded; outside: when it is stored. No mode has both. Of a mode with more indices
    than partitions, neighbours lie in a row of partitions, and further ones in further columns; or,
    if `in_runs`, neighbours lie in a row of columns, so that runs are long in memory. in_banks:
    each such further column, with what lies inside it, lies in a bank of its own.
    """

    block: tuple[int, ...]
    inside: tuple[int, ...]
    outside: tuple[int, ...]
    in_runs: bool = False
    in_banks: bool = False

    @property
    def lanes(self) -> tuple[int, int]:
        """Return on how many partitions a tile lies when it is loaded, and when it is stored."""
        return math.prod(self.inside), math.prod(self.outside)


class TileRange(NamedTuple):
    """The first index and the number of indices of each mode."""

    starts: tuple[int, ...]
    counts: tuple[int, ...]


class TileCopy(NamedTuple):
    """A copy between DRAM and the partitions of a tile: elements from the tile's first one on.

    first, partitions: on the chip; chip_at, chip_pattern: in each partition. dram_at, dram_pattern:
    of all of them, partition after partition.
    """

    first: int
    partitions: int
    chip_at: int
    chip_pattern: Pattern
    dram_at: int
    dram_pattern: Pattern

    @property
    def run(self) -> int:
        """Return the elements of a run that is contiguous on both sides."""
        step, count = self.chip_pattern[-1]
        dram_step, dram_count = self.dram_pattern[-1]
        return min(count, dram_count) if step == dram_step == 1 else 1

    def ends(self, dtype: str, outside: int = 0, inside: int = 0) -> tuple[Access, Access]:
        """Return the accesses in DRAM and on the chip, from these bytes on."""
        size = SIZE_BYTES[dtype]
        there, here = outside + self.dram_at * size, inside + self.chip_at * size
        return (
            Access(Buffer.DRAM, dtype, 0, 1, there, self.dram_pattern),
            Access(Buffer.STATE, dtype, self.first, self.partitions, here, self.chip_pattern),
        )

    @property
    def elements(self) -> int:
        """Return how many elements it moves."""
        return self.partitions * math.prod(count for _, count in self.chip_pattern)


class ColumnPlaces(NamedTuple):
    """How an operand lies in a partition: the step of each mode of columns, and the elements."""

    steps: tuple[int, ...]
    elements: int


@dataclass(slots=True)
class TileShape:
    """The tiles of a frame with the same number of indices of each mode: they are all alike."""

    frame: StreamFrame
    cut: Cut
    counts: tuple[int, ...]
    columns: tuple[int, ...] = field(init=False)
    partitions: tuple[int, ...] = field(init=False)
    ragged: int | None = field(init=False)
    _held: dict[tuple[int, int], ColumnPlaces] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Divide the indices of each mode."""
        self.columns = tuple(map(min, self.cut.columns, self.counts))
        self.partitions = tuple(-(-n // c) for n, c in zip(self.counts, self.columns, strict=True))
        several = [number for number, count in enumerate(self.partitions) if count > 1]
        uneven = [n for n in several if self.counts[n] % self.columns[n]]
        self.ragged = uneven[0] if uneven else None
        if uneven and uneven != several[:1]:
            raise ValueError("only the outermost mode on partitions has a rest")

    @property
    def lanes(self) -> int:
        """Return how many partitions the tile has."""
        return math.prod(self.partitions)

    def inner(self, part: FramePart | None) -> Modes:
        """Return the modes inside those that are cut: of a part, or of the whole result (None)."""
        return self.frame.inner if part is None else part.inner

    def modes(self, part: FramePart | None) -> list[Mode]:
        """Return the modes of the columns: the frame's, then the inner ones."""
        own = [Mode(c, m.steps) for c, m in zip(self.columns, self.frame.modes, strict=True)]
        return [*own, *self.inner(part)]

    @property
    def passes(self) -> bool:
        """Return whether what is loaded can be stored as it lies, without an engine."""
        (first, *others) = self.frame.parts
        if others or not first.kernel.moves:
            return False
        return self.held(first, first.kernel.inputs[0]) == self.held(None, 0)

    def order(self, part: FramePart) -> list[tuple[int, int]]:
        """Return (number, count) of a part's columns, in the order of the result's memory.

        What the result does not move in comes last, as it stands: it is repeated or reduced.
        """
        modes = self.modes(part)
        found = [(n, mode.extent) for n, mode in enumerate(modes) if mode.extent > 1]
        return sorted(found, key=lambda each: -modes[each[0]].steps[0])

    def kept_and_reduced(
        self, part: FramePart
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the modes of `order` of those that are cut, and the inner ones, row-major."""
        axis = len(self.frame.modes)
        kept = [each for each in self.order(part) if each[0] < axis]
        inner = enumerate(part.inner, axis)
        return kept, [(n, mode.extent) for n, mode in inner if mode.extent > 1]

    def first_column(self, part: FramePart) -> int:
        """Return the element of the result's columns with which a part begins."""
        if not self.frame.inner or not part.at:
            return 0
        axis = len(self.frame.modes)
        return part.at[0] // part.inner[0].steps[0] * self.held(None, 0).steps[axis]

    def held(self, part: FramePart | None, side: int) -> ColumnPlaces:
        """Return how a side's elements lie in a partition, compact in the order of its memory."""
        key = (-1 if part is None else self.frame.parts.index(part), side)
        if key not in self._held:
            self._held[key] = self._lay(part, side)
        return self._held[key]

    def _lay(self, part: FramePart | None, side: int) -> ColumnPlaces:
        modes = self.modes(part)
        steps = [0] * len(modes)
        order = self._order(modes, side)
        brought = order[len(order) - self.cut.gaps[side] :]
        size = 1
        if brought:
            size = stretch((modes[n] for n in brought), side)
            for number in brought:
                steps[number] = modes[number].steps[side]
        for number in reversed(order[: len(order) - len(brought)]):
            steps[number] = size if modes[number].steps[side] > 0 else -size
            size *= modes[number].extent
        return ColumnPlaces(tuple(steps), size)

    def first_held(self, part: FramePart, side: int) -> int:
        """Return where a side's first element lies: behind what a mode goes through backwards."""
        steps = self.held(part, side).steps
        backwards = zip(steps, self.modes(part), strict=True)
        return sum(-step * (mode.extent - 1) for step, mode in backwards if step < 0)

    def _order(self, modes: Sequence[Mode], side: int) -> list[int]:
        """Return the modes that move a side, in the order of its memory."""
        found = [n for n, mode in enumerate(modes) if mode.steps[side] and mode.extent > 1]
        return sorted(found, key=lambda n: -abs(modes[n].steps[side]))

    def loads(self, part: FramePart, side: int, ways: int) -> list[TileCopy]:
        """Return the copies that bring an operand, in about `ways` equal ones.

        What is gone through backwards comes forwards, in long runs: an engine turns it round.
        """
        modes, held = self.modes(part), self.held(part, side)
        order = self._order(modes, side)
        kept = order[: len(order) - self.cut.gaps[side]]
        columns = [(abs(modes[n].steps[side]), modes[n].extent, abs(held.steps[n])) for n in kept]
        before = sum(
            modes[n].steps[side] * (modes[n].extent - 1) for n in kept if modes[n].steps[side] < 0
        )
        if self.cut.gaps[side] and len(kept) < len(order):
            columns.append((1, stretch((modes[n] for n in order[len(kept) :]), side), 1))
        at = (part.at[side] if part.at else 0) + before
        found: list[TileCopy] = []
        for lanes, first, dram_at, _ in self._lane_groups(side):
            found += tile_copies(lanes, columns, CopyBegin(first, 0, at + dram_at), ways)
        return found

    def stores(self, ways: int) -> list[TileCopy]:
        """Return the copies that store the result, in about `ways` equal ones."""
        modes, held = self.modes(None), self.held(None, 0)
        found: list[TileCopy] = []
        for lanes, first, dram_at, is_last in self._lane_groups(0):
            kept = [Mode(m.extent, m.steps) for m in modes]
            chip_at = 0
            if is_last and self.ragged is not None:
                n = self.ragged
                rest = self.counts[n] - (self.partitions[n] - 1) * self.columns[n]
                skipped = self.columns[n] - rest
                kept[n] = Mode(rest, modes[n].steps)
                chip_at, dram_at = skipped * held.steps[n], dram_at + skipped * modes[n].steps[0]
            order = self._order(kept, 0)
            columns = [(kept[n].steps[0], kept[n].extent, held.steps[n]) for n in order]
            found += tile_copies(lanes, columns, CopyBegin(first, chip_at, dram_at), ways)
        return found

    def _lane_groups(self, side: int) -> Iterator[tuple[StrideCounts, int, int, bool]]:
        """Yield (pairs of partitions, first partition, place, whether it is the last group).

        There are two groups if the last partition of the outermost mode begins earlier.
        """
        pairs = [
            (mode.steps[side] * c, p)
            for mode, c, p in zip(self.frame.modes, self.columns, self.partitions, strict=True)
            if p > 1
        ]
        n = self.ragged
        if n is None:
            yield tuple(pairs), 0, 0, False
            return
        (step, count), *others = pairs
        inside = math.prod(p for _, p in others)
        yield ((step, count - 1), *others), 0, 0, False
        begin = (self.counts[n] - self.columns[n]) * self.frame.modes[n].steps[side]
        yield tuple(others), (count - 1) * inside, begin, True


class CopyBegin(NamedTuple):
    """The first partition of a copy, its first element in each, and its first one in DRAM."""

    partition: int
    chip_at: int
    dram_at: int

    def on(self, partitions: int, chip: int, dram: int) -> CopyBegin:
        """Return a beginning that many partitions and elements further on."""
        return CopyBegin(self.partition + partitions, self.chip_at + chip, self.dram_at + dram)


def tile_copies(
    lanes: StrideCounts, columns: list[tuple[int, int, int]], begin: CopyBegin, ways: int = 1
) -> Iterator[TileCopy]:
    """Yield copies of some partitions: what four pairs cannot name is cut, as is what is shared.

    lanes: (step, count) in DRAM. columns: (step in DRAM, count, step on the chip).
    """
    count = lanes[0][1] if lanes else 1
    if ways > 1 and count > 1:
        (step, _), *others = lanes
        inside, ways = math.prod(p for _, p in others), min(ways, count)
        for share in range(ways):
            first, stop = count * share // ways, count * (share + 1) // ways
            here = ((step, stop - first), *others)
            yield from tile_copies(here, columns, begin.on(first * inside, 0, first * step))
        return
    pattern = pairs_of([*lanes, *((step, n) for step, n, _ in columns)])
    if len(pattern) <= MAX_PAIRS:
        chip = pairs_of([(step, n) for _, n, step in columns])
        total = math.prod(n for _, n in lanes)
        yield TileCopy(begin.partition, total, begin.chip_at, chip, begin.dram_at, pattern)
    elif len(lanes) > 1 or (lanes and count <= columns[0][1]):
        (step, _), *others = lanes
        inside = math.prod(p for _, p in others)
        for n in range(count):
            yield from tile_copies(tuple(others), columns, begin.on(n * inside, 0, n * step))
    else:
        (step, many, chip_step), *rest = columns
        for n in range(many):
            yield from tile_copies(lanes, rest, begin.on(0, n * chip_step, n * step))


def pairs_of(pairs: Sequence[tuple[int, int]]) -> Pattern:
    """Return (step, count) pairs as a pattern with as few of them as can be."""
    found = coalesce(Mode(count, (step,)) for step, count in pairs)
    return tuple((mode.steps[0], mode.extent) for mode in found) or ((1, 1),)


def tiles(frame: StreamFrame, cut: Cut | TurnCut) -> Iterator[TileRange]:
    """Yield the tiles of a frame, the outermost mode's block the slowest."""
    blocks = []
    for mode, size in zip(frame.modes, cut.block, strict=True):
        blocks.append([(at, min(size, mode.extent - at)) for at in range(0, mode.extent, size)])
    for chosen in product(*blocks):
        yield TileRange(tuple(at for at, _ in chosen), tuple(count for _, count in chosen))


def tile_count(frame: StreamFrame, cut: Cut | TurnCut) -> int:
    """Return how many tiles a frame is cut into."""
    return math.prod(
        -(-mode.extent // size) for mode, size in zip(frame.modes, cut.block, strict=True)
    )
