"""Tiles that several DMA queues move at once: half in one bank, half in the next.

The port of a bank serves one queue at a time. Queues that have other rows of a tile go through its
columns in step. In one bank they take turns for all of it. In two, one is held back at the first
port, and from then on they are in different banks. Where copies are spread over the engines the
queues have other columns, and each half of these has a port of its own. Not here: DRAM with
channels and banks, where a queue needs the port for single bursts only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from systolic.compiler.cost.dma import longest_run_bytes, queues_beside
from systolic.compiler.ir.nodes import Layers, StoreNode
from systolic.compiler.ir.on_chip.chip_tiles import whole_banks
from systolic.compiler.place.free_bytes import ALIGNMENT, Wish, in_words
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.spans import Interval


@dataclass(frozen=True, slots=True)
class Halves:
    """The matrices whose tiles lie in two banks, and where other tiles leave room for that.

    half_bytes: of half of the largest of these tiles. buffer_bytes: of each partition.
    """

    matrices: frozenset[str]
    half_bytes: int
    bank_bytes: int
    buffer_bytes: int

    def halved(self, wish: Wish, size: int, held: Mapping[int, int]) -> Wish:
        """Return a wish for `size` bytes across the end of a bank of a wish.

        held: how many tiles lie in each bank. Pairs of banks that hold few come first, then those
        with a bank that is not wished for, and the wish itself last.
        """
        banks = [*wish.ranges]
        firsts = {bank.first for bank in banks}
        lowest = min(firsts, default=0)

        def crowded(end: int) -> tuple[bool, int, bool]:
            most = max(held.get(end // self.bank_bytes - n, 0) for n in (0, 1))
            outside = not {end, end - self.bank_bytes} <= firsts
            return outside, most, (end - lowest) // self.bank_bytes % 2 == 0

        ends = dict.fromkeys(end for bank in banks for end in (bank.stop, bank.first))
        starts = (end - size // 2 // ALIGNMENT * ALIGNMENT for end in sorted(ends, key=crowded))
        last = self.buffer_bytes - size
        halves = [Interval(start, start + size) for start in starts if 0 <= start <= last]
        return replace(wish, ranges=(*halves, *banks))

    def within(self, wish: Wish, size: int, held: Mapping[int, int]) -> Wish:
        """Return a wish for `size` bytes in one bank of a wish; banks with few tiles come first.

        held: how many lie in each bank. The ends of banks are left to halves if there is room.
        """
        banks = sorted(wish.ranges, key=lambda bank: held.get(bank.first // self.bank_bytes, 0))
        inner = [
            Interval(bank.first + self.half_bytes, bank.stop - self.half_bytes)
            for bank in banks
            if bank.count - 2 * self.half_bytes >= size
        ]
        return replace(wish, ranges=(*inner, *banks))


def halves_of(layers: Layers, chip: Chip, columns: Mapping[str, int]) -> Halves:
    """Return the matrices whose tiles several queues move at once; columns: of a tile of each."""
    buffer = chip.state_buffer
    alone = buffer.is_split or whole_banks(chip) or chip.dram.organisation is not None
    names: set[str] = set() if alone else _moved_together(layers, chip, columns)
    found = [m for m in layers.matrices if m.name in names and m.lies.rows is None]
    sizes = (columns[m.name] * data_type(m.dtype).size_bytes for m in found)
    half = in_words(max(sizes, default=0) // 2)
    together = frozenset(matrix.name for matrix in found)
    return Halves(together, half, buffer.bank_bytes, buffer.bytes_per_partition)


def _moved_together(layers: Layers, chip: Chip, columns: Mapping[str, int]) -> set[str]:
    if not chip.dma.is_spread:
        return {matrix.name for matrix in layers.matrices if matrix.lies.shared > 1}
    places = {place.name: place.shape for place in layers.dram}
    moved = [(m.name, m.source.dram, m.axes) for m in layers.matrices if m.source.kind == "dram"]
    moved += [(n.inputs[0], n.dram, n.axes) for n in layers.nodes if isinstance(n, StoreNode)]
    runs = ((name, longest_run_bytes(places[at], axes, columns[name])) for name, at, axes in moved)
    return {name for name, run in runs if queues_beside(chip, run) > 1}
