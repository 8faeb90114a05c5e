"""Bounds of bytes with gaps: counted place by place in memory, and one case by hand."""

from __future__ import annotations

from itertools import groupby
from random import Random

import numpy as np
import pytest

from support.chips import ideal_chip
from systolic.compiler.bounds.gaps import gapped_bytes
from systolic.compiler.ir.carried import memory_bytes
from systolic.hw.formulas.moves import GappedBytes, gapped_bound
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.layout import Shape
from systolic.machine import simulate

BURST_BYTES = 32


def drawn(rng: Random) -> Shape:
    """Return a shape in tiles of 8 rows, which stand over its edges more often than not."""
    dims = [rng.choice([1, 2, 3, 5, 7, 8, 12, 16, 20]) for _ in range(rng.randint(2, 4))]
    order = rng.sample(range(len(dims)), len(dims))
    dtype, pairs = rng.choice([("f32", ""), ("bf16", "(2,1)"), ("s8", "(4,1)"), ("s8", "")])
    text = ",".join(map(str, order))
    return Shape.parse(f"{dtype}[{','.join(map(str, dims))}]{{{text}:T(8,16){pairs}}}")


@pytest.mark.parametrize("seed", range(200))
def test_memory_has_no_fewer_gaps_and_bursts_than_a_bound_says(seed: int) -> None:
    shape = drawn(Random(seed))
    found = gapped_bytes(shape, stored=False)
    minor = shape.dims[shape.layout.minor_to_major[0]]
    assert (found is None) == (minor % 16 == 0)
    if found is None:
        return
    size = shape.dtype.itemsize
    _, here = shape.from_linear_indices(np.arange(shape.padded_elements()))
    stretches = [(there, len(list(places)) * size) for there, places in groupby(here.tolist())]
    gaps = [length for there, length in stretches[:-1] if not there]  # between two elements
    assert sum(length >= found.gap_bytes for length in gaps) >= found.lines - 1
    assert found.size_bytes == memory_bytes(shape) == int(here.sum()) * size
    used = len(np.unique(np.flatnonzero(here) * size // BURST_BYTES)) * BURST_BYTES
    assert found.size_bytes <= found.in_bursts(BURST_BYTES) <= used


def test_lines_of_a_tensor_by_hand() -> None:
    found = gapped_bytes(Shape.parse("s8[16,28,28,96]{0,2,1,3:T(8,128)(4,1)}"), stored=False)
    # 28 rows are seven lines of four, of 28 x 96 matrices. A line has 16 columns, so 64 bytes,
    # and 112 x 4 places without elements.
    assert found == GappedBytes(16 * 28 * 28 * 96, 7 * 28 * 96, 512, 0, 64, 448)


@pytest.mark.parametrize(
    ("cost", "gap_bytes", "cycles"),
    [
        # 100 lines of 64 bytes at 8 bytes in a cycle take 800 cycles. 99 gaps of 16 bytes take 2
        # cycles each; of 80 bytes 10, and a descriptor of its own 7.
        ("sum", 16, 800 + 99 * 2),
        ("sum", 80, 800 + 99 * 7),
        # The greater of both counts: of 80 bytes, x lines have descriptors of their own, and
        # 7 x = 800 + 10 (100 - x), so x = 1800 / 17.
        ("max", 80, 800),
        # Of 8 bytes with gaps of 8: 7 x = 100 + (100 - x), so x = 25.
        ("max", 8, 175),
    ],
)
def test_descriptors_or_gaps_whichever_cost_less(cost: str, gap_bytes: int, cycles: int) -> None:
    hardware = ideal_chip(4, 4, dma={
        "queues": 1, "latency_cycles": 5, "descriptor_cycles": 7, "descriptor_cost": cost,
        "bytes_per_cycle": 8,
    })  # fmt: skip
    each = 8 if gap_bytes == 8 else 64
    lines = GappedBytes(100 * each, 100, each + gap_bytes, 0, each, gap_bytes)
    assert lines.queue_cycles(hardware) == cycles
    alone = gapped_bound(hardware, [lines])
    twice = gapped_bound(hardware, [lines, lines], moved=False)
    both = gapped_bound(hardware, [lines, lines])
    assert both == alone
    assert twice.ticks - alone.ticks == cycles * hardware.period("dma")


def test_queues_that_have_all_engines_write_a_line_with_each_of_them() -> None:
    """64 lines of 8 bytes, 80 apart: 4 queues write 4 lines in 7 cycles each, 4 times.

    All engines move 32 bytes in a cycle. x lines have descriptors of their own: 7 x / 16 = 16 +
    (64 - x) 80 / 32 if x = 59.9, which is 26.2 cycles.
    """
    hardware = ideal_chip(8, 8, dma={
        "queues": 4, "engines": 4, "partitions_per_engine": 2, "descriptor_cycles": 7,
        "descriptor_cost": "max", "bytes_per_cycle": 8,
    }, dram={"bytes_per_cycle": 256},
    state_buffer={"port_scope": "bank", "bytes_per_partition": 8192, "banks": 8})  # fmt: skip
    copies = []
    for queue in range(4):
        for part in range(2):
            first = 8 * (2 * queue + part)
            here = Access(Buffer.STATE, "u8", 0, 8, queue * 1024 + 8 * part, ((1, 8),))
            there = Access(Buffer.DRAM, "u8", 0, 1, 88 * first, ((88, 8), (1, 8)))
            copies.append(DmaCopy(dma_queue=queue, source=here, target=there))
    trace = simulate(hardware, Program("lines", copies), values=False).trace
    assert trace.ticks == 4 * 7
    bound = gapped_bound(hardware, [GappedBytes(64 * 8, 64, 88, 0, 8, 80, stored=True)])
    assert bound.ticks == 26


def test_where_dma_transposes_only_what_is_stored_pays_for_its_gaps() -> None:
    """A transpose has its target on the chip. 100 lines at 7 cycles and 8 bytes each: 99 gaps."""
    hardware = ideal_chip(4, 4, dma={
        "queues": 1, "descriptor_cycles": 7, "bytes_per_cycle": 8,
        "transposes": {"element_bytes": [4], "dram_percent": 90},
    })  # fmt: skip
    cycles = {
        stored: GappedBytes(800, 100, 88, 0, 8, 80, stored).queue_cycles(hardware)
        for stored in (False, True)
    }
    assert cycles == {False: 100, True: 100 + 99 * 7}
    shape = Shape.parse("f32[8,20]{1,0:T(8,128)}")
    read, written = (gapped_bytes(shape, stored=stored) for stored in (False, True))
    assert read is not None
    assert written is not None
    assert (read.stored, written.stored) == (False, True)
