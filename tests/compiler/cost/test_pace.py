"""Is the estimate that chooses between plans near what the machine takes?"""

from __future__ import annotations

import pytest

import systolic
from support.blocks import state
from support.chips import able_chip, ideal_chip
from systolic.compiler.cost.pace import done_ticks, estimated_ticks
from systolic.compiler.ir.drafts import Draft
from systolic.config import load_chip
from systolic.isa import (
    Access,
    ActivateReduce,
    Buffer,
    Copy,
    DmaCopy,
    LoadWeights,
    Memset,
    Pool,
    Program,
)
from systolic.machine import simulate
from systolic.workload import GraphBuilder


@pytest.mark.parametrize("weight_buffer", ["single", "double", "serial"])
@pytest.mark.parametrize("sizes", [(16, 16, 16), (64, 16, 16), (4, 32, 32), (2, 4, 4)], ids=str)
def test_the_pace_of_a_product_on_the_chip(sizes, weight_buffer):
    """Within a tenth of the run; with "serial" each load waits for the array to drain."""
    M, K, N = sizes
    chip = ideal_chip(4, 4, pe_array={"weight_buffer": weight_buffer})
    builder = GraphBuilder("state_buffer")
    lhs, rhs = builder.tensor("lhs", f"f32[{M},{K}]{{0,1}}"), builder.tensor("rhs", f"f32[{K},{N}]")
    builder.matmul(lhs, rhs, f"f32[{M},{N}]{{0,1}}", name="y")
    result = systolic.run(builder.graph(), chip, values=False)
    ticks = estimated_ticks(result.compiled.scheduled.drafts, chip)
    assert ticks // chip.period("pe_array") == pytest.approx(result.cycles, rel=0.1)


def in_dram(*pattern: tuple[int, int]) -> Access:
    return Access(Buffer.DRAM, "f32", 0, 1, 0, pattern)


ALONE = {
    "copy": Copy(engine="activation", source=state(0, 4, 0, 8), target=state(0, 4, 128, 8)),
    "other engine": Copy(engine="pooling", source=state(0, 4, 0, 8), target=state(0, 4, 128, 8)),
    "memset": Memset(engine="activation", target=state(0, 4, 128, 8), value=1.0),
    "load": LoadWeights(weights=state(0, 4, 0, 4)),
    "within the chip": DmaCopy(dma_queue=0, source=state(0, 4, 0, 8), target=state(0, 4, 256, 8)),
    "rows": DmaCopy(dma_queue=0, source=in_dram((1, 32)), target=state(0, 4, 256, 8)),
    "one row": DmaCopy(dma_queue=0, source=in_dram((1, 32)), target=state(0, 1, 256, 32)),
    "reduction": Pool(
        function="sum", window=32, source=state(0, 4, 0, 32), target=state(0, 4, 256, 1)
    ),
    "results and sums": ActivateReduce(
        engine="activation",
        function="exponential",
        source=state(0, 4, 0, 8),
        target=state(0, 4, 128, 8),
        reduced=state(0, 4, 256, 1),
    ),
    "elements": DmaCopy(dma_queue=0, source=in_dram((2, 32)), target=state(0, 1, 256, 32)),
}


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"activation": {"latency_cycles": 3}, "pooling": {"fixed_cycles": 5}},
        {"dma": {"partitions_per_cycle": 4}},
        {"dma": {"partitions_per_cycle": 2, "latency_cycles": 7, "descriptor_cycles": 3}},
    ],
    ids=str,
)
@pytest.mark.parametrize("what", ALONE)
def test_an_instruction_alone_takes_what_was_estimated(what, tables):
    """Nothing contends, so the estimate is the machine's own count."""
    chip, instruction = able_chip(4, 4, **tables), ALONE[what]
    trace = simulate(chip, Program(what, (instruction,)), values=False).trace
    assert estimated_ticks([Draft(instruction, "", (), (), 0)], chip) == trace.cycles()


def test_queues_that_move_at_once_share_the_rate_of_dram():
    """Four queues bring 32 rows of 2 KiB each: 8 cycles of bytes for a row alone, 10 together."""
    chip = load_chip("configs/chips/ideal_128x128.toml")
    copies = [
        DmaCopy(
            dma_queue=queue,
            source=Access(Buffer.DRAM, "u8", 0, 1, 65536 * queue, ((1, 65536),)),
            target=Access(Buffer.STATE, "u8", 32 * queue, 32, 0, ((1, 2048),)),
        )
        for queue in range(4)
    ]
    drafts = [Draft(copy, "", (), (), 0) for copy in copies]
    run = simulate(chip, Program("four", tuple(copies)), values=False).trace.cycles()
    together = max(done_ticks(drafts, chip).values())
    assert together == pytest.approx(run, rel=0.02)
    assert estimated_ticks(drafts, chip) < 0.95 * run
