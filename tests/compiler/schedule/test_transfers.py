"""Are transfers shared among queues as `docs/compiler.md` says?"""

from __future__ import annotations

from pathlib import Path

import pytest

import systolic
from support.chips import ideal_chip
from systolic.config import load_run
from systolic.isa import Buffer, DmaCopy, Program
from systolic.workload import GraphBuilder

RUNS = Path(__file__).resolve().parents[3] / "configs" / "runs"


def copies(program: Program) -> list[DmaCopy]:
    return [i for i in program.instructions if isinstance(i, DmaCopy)]


def product(M: int, K: int, N: int):
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", f"f32[{M},{K}]{{0,1}}"), builder.tensor("w", f"f32[{K},{N}]")
    builder.matmul(x, w, f"f32[{M},{N}]", name="y")
    return builder.graph()


def test_the_first_tile_comes_through_half_of_the_queues():
    """By rows: before the first product there is nothing else for the other queues to bring."""
    config = load_run(RUNS / "matmul_chain.toml")
    program = systolic.run(config, values=False).compiled.program
    first, second = copies(program)[:2]
    rows = config.chip.state_buffer.partitions
    lanes = [(copy.target.partition, copy.target.partitions) for copy in (first, second)]
    assert lanes == [(0, rows // 2), (rows // 2, rows // 2)]
    assert first.dma_queue != second.dma_queue
    assert first.target.start == second.target.start


@pytest.mark.parametrize("queues", [2, 3, 4, 8])
def test_stores_have_queues_as_their_bytes_do(queues):
    """256 x 8 times 8 x 256 stores sixteen times as many bytes as it brings.

    While there is something to bring, one queue does that, and every other one stores. Then all
    of them store.
    """
    chip = ideal_chip(4, 4, dma={"queues": queues})
    made = list(copies(systolic.run(product(256, 8, 256), chip, values=False).compiled.program))
    brings = [number for number, c in enumerate(made) if c.source.buffer is Buffer.DRAM]
    stores = [number for number, c in enumerate(made) if c.target.buffer is Buffer.DRAM]
    assert {made[n].dma_queue for n in brings if n > stores[0]} == {0}
    early = {made[n].dma_queue for n in stores if n < brings[-1]}
    late = {made[n].dma_queue for n in stores if n > brings[-1]}
    assert (early, late) == (set(range(1, queues)), set(range(queues)))
