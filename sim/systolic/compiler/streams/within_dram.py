"""Copies from DRAM to DRAM: elements that only move, in runs as they lie on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from systolic.compiler.streams.stage import Stage, StreamPlan
from systolic.compiler.streams.tiling import pairs_of
from systolic.compiler.streams.work import StreamFrame
from systolic.hw.datatypes import SIZE_BYTES
from systolic.isa import Access, Buffer
from systolic.isa.access import MAX_PAIRS, Pattern


class _Copy(NamedTuple):
    """The first element, and the pattern, of the source and of the target."""

    at: int
    to: int
    read: Pattern
    written: Pattern


def emit_within(stage: Stage, frame: StreamFrame, plan: StreamPlan, layer: str) -> None:
    """Copy the elements of a frame, in `store_ways` about equal copies or in more."""
    (part,) = frame.parts
    (number,) = part.kernel.inputs
    source, target = frame.sides[number], frame.sides[0]
    modes = [
        (mode.steps[number], mode.steps[0], mode.extent)
        for mode in sorted((*frame.modes, *part.inner), key=lambda mode: -mode.steps[0])
        if mode.extent > 1
    ]
    queues, size = range(stage.chip.dma.queues), SIZE_BYTES[target.dtype]
    here, there = stage.bases[source.tensor], stage.bases[target.tensor]
    for at, to, read, written in _copies(modes, frame.at[number], frame.at[0], plan.store_ways):
        ends = (
            Access(Buffer.DRAM, source.dtype, 0, 1, here + at * size, read),
            Access(Buffer.DRAM, target.dtype, 0, 1, there + to * size, written),
        )
        stage.copy(layer, queues, ends, (stage.tensor(source.tensor), stage.tensor(target.tensor)))


def _copies(modes: list[tuple[int, int, int]], at: int, to: int, ways: int) -> Iterator[_Copy]:
    """Yield copies of modes (step of the source, of the target, count), the outermost first."""
    if ways > 1 and modes:
        (step, there, count), *inner = modes
        ways = min(ways, count)
        for share in range(ways):
            begin, end = count * share // ways, count * (share + 1) // ways
            some = [(step, there, end - begin), *inner]
            yield from _copies(some, at + begin * step, to + begin * there, 1)
        return
    read = pairs_of([(step, count) for step, _, count in modes])
    written = pairs_of([(there, count) for _, there, count in modes])
    if max(len(read), len(written)) <= MAX_PAIRS:
        yield _Copy(at, to, read, written)
        return
    (step, there, count), *inner = modes
    for n in range(count):
        yield from _copies(inner, at + n * step, to + n * there, 1)
