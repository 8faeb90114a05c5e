"""Twin of `event.dma.descriptors`: runs of elements contiguous in source and target of a copy."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from systolic.arrays import Array
from systolic.hw.spec import Dma
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose


class RunStart(NamedTuple):
    """Where a run begins: a partition and a byte in it."""

    partition: int
    byte: int


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A run of bytes from one place to another.

    gathered: of a transpose, which fills a run from many places: partition and first byte of each
    of its elements, int64 [2, elements]; `source` is the first element's.
    """

    source: RunStart
    target: RunStart
    size_bytes: int
    gathered: Array | None = field(default=None, compare=False)


def turned_descriptors(copy: DmaTranspose) -> Iterator[Descriptor]:
    """Yield the longest runs of the target; what fills them lies a row of the matrix apart."""
    (p, a), (q, b) = _elements(copy.source), _elements(copy.target)
    size, cols = copy.source.element_bytes, copy.target.partitions
    breaks = (np.diff(b) != 1) | (np.diff(q) != 0)
    firsts = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    for first, stop in zip(firsts.tolist(), [*firsts[1:].tolist(), len(b)], strict=True):
        column, row = divmod(np.arange(first, stop), copy.target.elements)
        number = row * cols + column
        gathered = np.stack([p[number], a[number] * size])
        yield Descriptor(
            RunStart(*gathered[:, 0].tolist()),
            RunStart(int(q[first]), int(b[first]) * size),
            (stop - first) * size,
            gathered,
        )


def descriptors(source: Access, target: Access) -> Iterator[Descriptor]:
    """Yield the longest runs, in the order of the copy."""
    (p, a), (q, b) = _elements(source), _elements(target)
    breaks = (np.diff(a) != 1) | (np.diff(b) != 1) | (np.diff(p) != 0) | (np.diff(q) != 0)
    firsts = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    lengths = np.diff(np.append(firsts, len(a)))
    size = source.element_bytes
    for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
        yield Descriptor(
            RunStart(int(p[first]), int(a[first]) * size),
            RunStart(int(q[first]), int(b[first]) * size),
            length * size,
        )


def descriptors_of(copy: DmaCopy) -> Iterator[Descriptor]:
    """Yield the descriptors of a copy or a transpose."""
    if isinstance(copy, DmaTranspose):
        return turned_descriptors(copy)
    return descriptors(copy.source, copy.target)


def bundles(copy: DmaCopy, most: int) -> Iterator[tuple[Descriptor, ...]]:
    """Yield the descriptors in bundles of at most `most` that move side by side."""
    source, target = copy.source, copy.target
    bundle: list[Descriptor] = []
    for descriptor in descriptors_of(copy):
        full = len(bundle) == most
        if bundle and (full or not _fits_beside(bundle[-1], descriptor, source, target)):
            yield tuple(bundle)
            bundle.clear()
        bundle.append(descriptor)
    yield tuple(bundle)


def spread_bundles(copy: DmaCopy, dma: Dma) -> Iterator[tuple[Descriptor, ...]]:
    """Yield the descriptors in bundles; each engine moves at most one of a bundle, side by side.

    Every engine works through its own: a bundle has the next one of each engine, as long as these
    are alike and, on the chip, at one place of their partitions.
    """
    source, target = copy.source, copy.target
    queues: dict[int, deque[Descriptor]] = {}
    for number, descriptor in enumerate(descriptors_of(copy)):
        engine = engine_of(descriptor, source, target, dma, number)
        queues.setdefault(engine, deque()).append(descriptor)
    while any(queues.values()):
        bundle: list[Descriptor] = []
        for _, queue in sorted(queues.items()):
            if not queue:
                continue
            if bundle and not _is_like(bundle[-1], queue[0], source, target):
                yield tuple(bundle)
                bundle.clear()
            bundle.append(queue.popleft())
        yield tuple(bundle)


def engine_of(descriptor: Descriptor, source: Access, target: Access, dma: Dma, number: int) -> int:
    """Return the engine of a copy's descriptor `number`: by where it writes, else reads.

    Within DRAM the engines take them in turn.
    """
    if target.buffer is not Buffer.DRAM:
        return dma.engine_of(descriptor.target.partition)
    if source.buffer is not Buffer.DRAM:
        return dma.engine_of(descriptor.source.partition)
    return number % dma.engine_count


def _is_like(one: Descriptor, other: Descriptor, source: Access, target: Access) -> bool:
    """Return whether both are of one length and, on the chip, at one place of their partitions."""
    return (
        one.size_bytes == other.size_bytes
        and (
            source.buffer is Buffer.DRAM
            or _is_gathered(one)
            or one.source.byte == other.source.byte
        )
        and (target.buffer is Buffer.DRAM or one.target.byte == other.target.byte)
    )


def _fits_beside(one: Descriptor, other: Descriptor, source: Access, target: Access) -> bool:
    """Return whether both are alike and, on the chip, in one place of neighbouring partitions."""
    if one.size_bytes != other.size_bytes:
        return False
    on_chip = [
        (before, after)
        for access, before, after in (
            (source, one.source, other.source),
            (target, one.target, other.target),
        )
        if access.buffer is not Buffer.DRAM and not (access is source and _is_gathered(one))
    ]
    return bool(on_chip) and all(
        after == RunStart(before.partition + 1, before.byte) for before, after in on_chip
    )


def _is_gathered(descriptor: Descriptor) -> bool:
    return descriptor.gathered is not None


def _elements(access: Access) -> tuple[Array, Array]:
    """Return partition and element index of every element, in the order of the accesses."""
    offsets = access.offsets()
    first, count = access.partition, access.partitions
    partitions = np.repeat(np.arange(first, first + count), len(offsets))
    return partitions, np.tile(offsets, count)
