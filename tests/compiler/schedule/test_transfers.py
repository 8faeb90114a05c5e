"""Are transfers shared among queues as `docs/compiler.md` says?"""

from __future__ import annotations

from pathlib import Path

import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import Options
from systolic.config import load_chip, load_run
from systolic.isa import Buffer, DmaCopy, Program
from systolic.shipped import CHIPS
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
    config = load_run(RUNS / "matmul_chain.toml", ["compile.tile_columns=512"])
    program = systolic.run(config, values=False).compiled.program
    first, second = copies(program)[:2]
    rows = config.chip.state_buffer.partitions
    lanes = [(copy.target.partition, copy.target.partitions) for copy in (first, second)]
    assert lanes == [(0, rows // 2), (rows // 2, rows // 2)]
    assert first.dma_queue != second.dma_queue
    assert first.target.start == second.target.start


@pytest.mark.slow
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


@pytest.mark.parametrize("queues", [2, 4])
def test_all_queues_store_the_last_tiles_of_a_transpose(queues):
    """Behind the last load, the queues of loads have nothing else to do."""
    builder = GraphBuilder("dram")
    builder.transpose(builder.tensor("x", "f32[64,64]"), "f32[64,64]", name="y")
    chip, array = ideal_chip(8, 8, dma={"queues": queues}), Options(via="pe")
    made = copies(systolic.run(builder.graph(), chip, options=array, values=False).program)
    last = max(number for number, c in enumerate(made) if c.source.buffer is Buffer.DRAM)
    assert {c.dma_queue for c in made[last + 1 :]} == set(range(queues))


def test_stores_have_queues_as_their_descriptors_do_where_rows_of_dram_are_open():
    """A lone row of each pair is stored element by element, which takes longer than its load."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f16[1,96,14,14]")
    builder.transpose(x, "f16[14,14,1,96]{3,2,1,0:T(8,128)(2,1)}", (2, 3, 0, 1), name="y")
    chip = load_chip(CHIPS / "hbm3_128x128.toml")
    program = systolic.run(builder.graph(), chip, values=False).compiled.program
    stores = [copy for copy in copies(program) if copy.target.buffer is Buffer.DRAM]
    assert len({copy.dma_queue for copy in stores}) == min(len(stores), chip.dma.queues - 1)


def test_a_tile_of_an_image_comes_by_one_queue_if_there_is_one_for_each():
    """Four tiles come by four queues; shared by two queues each they would wait twice."""
    builder = GraphBuilder("dram")
    builder.tensor("x", "bf16[1,224,224,3]{2,1,3,0}")
    builder.tensor("w", "bf16[3,3,3,8]")
    builder.add("conv2d", ("x", "w"), "bf16[1,222,222,8]", name="y")
    chip, options = load_chip(CHIPS / "ideal_128x128.toml"), Options(structural_zeros=False)
    program = systolic.run(builder.graph(), chip, values=False, options=options).compiled.program
    brought = [
        each for each in program.instructions
        if isinstance(each, DmaCopy) and each.source.buffer is Buffer.DRAM
        and each.target.elements == 56 * 224
    ]  # fmt: skip
    assert [each.target.partitions for each in brought] == [3] * 4
    assert len({each.queue for each in brought}) == 4


def stores(M: int, K: int, N: int) -> list[tuple[int, int]]:
    """Return queue and partitions of the stores of a product, in order."""
    chip = ideal_chip(4, 4, dma={"queues": 4, "bytes_per_cycle": 1, "latency_cycles": 8},
                      dram={"size_bytes": 1 << 20, "bytes_per_cycle": 4})  # fmt: skip
    program = systolic.run(product(M, K, N), chip, values=False).compiled.program
    return [(c.dma_queue, c.source.partitions) for c in copies(program)
            if c.target.buffer is Buffer.DRAM]  # fmt: skip


def test_a_lone_last_tile_is_stored_by_all_queues():
    assert sorted(stores(4, 4, 4)) == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_the_last_tile_is_stored_by_the_queues_that_are_free():
    """Of two tiles of 4 x 8 elements two queues take the first: 2 x 32 bytes each, 1 in a cycle.

    That is 72 cycles with the latency. The array makes the second tile in 4 x 8 of them if K is 16,
    and the other two queues store it. If K is 64 it takes 16 x 8, and all queues store it.
    """
    soon, late = stores(8, 16, 8), stores(8, 64, 8)
    assert [lanes for _, lanes in soon] == [2, 2, 2, 2]
    assert {queue for queue, _ in soon[:2]}.isdisjoint(queue for queue, _ in soon[2:])
    assert [lanes for _, lanes in late] == [2, 2, 1, 1, 1, 1]
    assert {queue for queue, _ in late[2:]} == {0, 1, 2, 3}


def test_stores_that_depend_on_all_loads_are_spread_evenly() -> None:
    # As work 18 of benchmarks/bench_moves.py: two copies bring everything, by two of four queues,
    # before the first of 16 matrices is made.
    builder = GraphBuilder(home="dram")
    x, w = builder.tensor("x", "f16[16,128,96]{0,2,1}"), builder.tensor("w", "f16[16,96,128]")
    builder.matmul(x, w, "f32[16,128,128]{2,1,0:T(8,128)}", name="y")
    chip = load_chip(CHIPS / "hbm2e_128x128.toml")
    made = copies(systolic.run(builder.graph(), chip, values=False).compiled.program)
    loads = [c.dma_queue for c in made if c.source.buffer is Buffer.DRAM]
    stored = [c.dma_queue for c in made if c.target.buffer is Buffer.DRAM]
    assert loads == [0, 1]
    assert [stored.count(queue) for queue in range(4)] == [4, 4, 4, 4]
