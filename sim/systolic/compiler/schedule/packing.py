"""Bytes and the elements in them, in the fourth pass: shifts and masks of an engine.

The elements of a byte lie from its low bits on. To unpack n elements from each byte, one
instruction for each k writes element k of every byte to every n-th place, or to the k-th plane of
places side by side: then it takes four bytes of a word at once. To pack, neighbours are
joined: pairs of elements, then pairs of these pairs, until a byte is full. Each time the second of
a pair is shifted left and or-ed to the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from systolic.compiler.cost.engines import on_cheapest
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.lane_step import LaneStep, with_each
from systolic.compiler.ir.nodes import PackNode, UnpackNode
from systolic.compiler.ir.tasks import Task
from systolic.compiler.place.residency import Resident
from systolic.compiler.place.tiles import OnChip
from systolic.element_types import BYTE_BITS
from systolic.isa import Access, TensorScalar
from systolic.spans import Span
from systolic.workload.options import Options

WORD, WORD_BYTES = "s32", 4
"""The type as which four bytes are unpacked at once, and its size."""


class PackMaker:
    """Makes the instructions that unpack bytes and pack elements, whose tiles are in place."""

    def __init__(self, drafts: Drafts, tiles: OnChip, options: Options) -> None:
        self._drafts, self._tiles, self._options = drafts, tiles, options
        self._busy: dict[str, int] = {}

    def unpack(self, task: Task, node: UnpackNode) -> None:
        """Write element k of every byte to every n-th place, for each k."""
        packed, elements = self._ends(task)
        self._tiles.make_whole(elements)
        for number in range(BYTE_BITS // node.bits):
            target = self._every(elements, number, BYTE_BITS // node.bits)
            source = self._tiles.whole(packed)
            self._do(_field(number, node.bits), (packed,), elements, source=source, target=target)
        if node.background:
            elements.region.end_phase()

    def pack(self, task: Task, node: PackNode) -> None:
        """Join neighbours in place, and in the last step in the bytes."""
        elements, packed = self._ends(task)
        bits, apart = node.bits, 1
        while bits < BYTE_BITS:
            first, second = (self._every(elements, k * apart, 2 * apart) for k in (0, 1))
            self._do(_shifted(bits), (elements,), elements, source=second, target=second)
            bits, apart = 2 * bits, 2 * apart
            into, target = elements, first
            if bits == BYTE_BITS:
                into, target = packed, self._tiles.make_whole(packed)
            self._do(with_each("or"), (elements,), into, left=first, right=second, target=target)

    def _ends(self, task: Task) -> tuple[Resident, Resident]:
        read, made = (self._tiles.memory.resident[t] for t in (*task.reads, *task.writes))
        return read, made

    def _every(self, place: Resident, first: int, step: int) -> Access:
        """Return the access to every `step`-th element of a tile's rows."""
        rows, cols = self._tiles.block(place.tile).extents
        found = self._tiles.part(place, Span(0, rows), Span(first, 1))
        return replace(found, pattern=((step, cols // step),))

    def _do(
        self, step: LaneStep, reads: tuple[Resident, ...], made: Resident, **fields: Access
    ) -> None:
        work = on_cheapest(self._tiles.chip, self._options, step, self._busy, "", **fields)
        self._drafts.add(work, [place.region for place in reads], (made.region,))


def _field(number: int, bits: int, size: int = 1) -> LaneStep:
    """Return the step that takes element `number` out of each of the `size` bytes of a word."""
    mask, shift = (1 << bits) - 1, number * bits
    mask = int.from_bytes(bytes([mask] * size), "little")
    settings: dict[str, Any] = {"op": "shift_right_logical", "scalar": shift}
    if shift == 0:
        settings = {"op": "and", "scalar": mask}
    elif shift + bits < BYTE_BITS or size > 1:
        settings |= {"then": "and", "other": mask}
    return LaneStep(TensorScalar, settings)


def _shifted(bits: int) -> LaneStep:
    return LaneStep(TensorScalar, {"op": "shift_left", "scalar": bits})
