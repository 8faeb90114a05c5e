"""Bounds of what only moves elements: by hand, reached where nothing is lost, never beaten."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import systolic
from compiler.test_graph_values import random_chip, random_layout
from support.axes import told
from support.chips import ideal_chip
from support.random_programs import aside, spread_over_engines
from support.refusals import is_for_room
from support.tiers import quick_first
from systolic.compiler import Options
from systolic.compiler.bounds.run import operation_bounds, run_bound
from systolic.config import load_chip, load_run
from systolic.errors import SystolicError
from systolic.hw.formulas.moves import bounce_bound, copied_bound
from systolic.isa import Access, Buffer, Copy, Program
from systolic.machine import simulate
from systolic.workload import Graph, GraphBuilder

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
PATENT = load_chip(CONFIGS / "chips" / "patent_128x64.toml")
VS_DRAM = CONFIGS / "runs" / "transpose_vs_dram.toml"


def one(kind: str, source: str, result: str, axes=(), homes=("state_buffer",) * 2) -> Graph:
    builder = GraphBuilder(homes[1])
    x = builder.tensor("x", source, homes[0])
    builder.add(kind, (x,), result, name="y", **told(axes))
    return builder.graph()


def test_a_bounce_by_hand():
    """4 x 4 float32: 4 rows of 16 bytes out, 16 elements back, 7 cycles for each descriptor."""
    out, back = (600 + 42) + 4 * (7 + 1), (600 + 42) + 16 * (7 + 1)
    assert bounce_bound(PATENT, [(4, 4)], 4).cycles == out + back
    many = bounce_bound(PATENT, [(4, 4)] * 10, 4)
    assert many.cycles == 10 * (out + back) // 2  # two queues
    assert bounce_bound(PATENT, [(4, 1)], 4).cycles == 642 + 4 * 8 + 642 + 8


def test_a_block_alone_reaches_the_bound_of_a_bounce():
    run = load_run(CONFIGS / "runs" / "transpose_fig4.toml",
                   ["compile.via=dram", "workload.shape=f32[4,4]"])  # fmt: skip
    summary = systolic.run(run, values=False).summary
    assert summary["cycles"] == summary["bound"]["cycles"] == 1444


def test_copies_by_hand():
    """Two engines of 128 lanes, latency 1: 256 elements in a cycle, written in the next; two
    queues of 272 bytes, from cycle 600 on: then 392 float32 in a cycle, those of the queues at
    once."""
    assert copied_bound(PATENT, 2 * 14 * 14 * 32, 4).cycles == 49 + 1
    assert copied_bound(PATENT, 256, 4).cycles == 1 + 1
    assert copied_bound(PATENT, 257, 4).cycles == 2 + 1
    assert copied_bound(PATENT, 599 * 256 + 136, 4).cycles == 600 + 1
    assert copied_bound(PATENT, 600 * 256 + 136 + 1, 4).cycles == 601 + 1


def test_only_the_ports_of_a_result_are_written():
    """Two banks of 28 lanes: 56 float32 in a cycle; the queues begin in cycle 600."""
    assert copied_bound(PATENT, 56, 4, ports=56).cycles == 1 + 1
    assert copied_bound(PATENT, 57, 4, ports=56).cycles == 2 + 1
    assert copied_bound(PATENT, 599 * 56, 4, ports=56).cycles == 599 + 1
    assert copied_bound(PATENT, 599 * 256, 4, ports=1000).cycles == 599 + 1


def test_a_port_is_written_by_the_engine_that_is_fastest():
    """Cycles of 2 and 3 ticks: a port takes a word in 2, the first of them from tick 2 on."""
    chip = ideal_chip(
        2,
        2,
        clock={"quick": 3000, "slow": 2000},
        activation={"clock": "quick"},
        pooling={"clock": "slow"},
        dma={"latency_cycles": 10**6},
    )
    assert copied_bound(chip, 50, 4, ports=1).ticks == 2 + 50 * 2


def test_one_engine_writes_several_banks_of_a_lane_at_once():
    """Four copies by lanes of their own into the same 32 lanes, a bank each: 504 cycles. As if an
    engine wrote a word of a lane in a cycle, two engines would take 1,000."""
    bank = PATENT.state_buffer.bank_bytes
    ends = [
        [
            Access(Buffer.STATE, "f32", partition, 32, start, ((1, 500),))
            for partition, start in ((32 * n, 0), (0, (n + 1) * bank))
        ]
        for n in range(4)
    ]
    copies = (Copy(engine="activation", source=source, target=target) for source, target in ends)
    cycles = simulate(PATENT, Program("by_hand", tuple(copies))).trace.cycles()
    assert copied_bound(PATENT, 4 * 32 * 500, 4, ports=4 * 32).cycles <= cycles == 504


def test_tiles_say_to_how_many_ports_a_result_goes():
    """Its three rows of tiles lie in 24 partitions, wherever the source lies, and in two banks at
    most: 48 of 153,600 float32 in a cycle, and from cycle 600 on four queues 272 more."""
    graph = one("transpose", "f32[24,100,64]", "f32[64,24,100]{2,1,0:T(8,128)}", (2, 0, 1))
    chip = load_chip(CONFIGS / "chips" / "ideal_128x128.toml")
    least = 600 + (153600 - 600 * 48) // (48 + 272)
    bound = run_bound(graph, chip, Options())
    assert least <= bound.cycles <= least + 2
    assert systolic.run(graph, chip, values=False).cycles >= bound.cycles


def test_narrow_elements_side_by_side_are_copied_as_words():
    """Four bytes of a lane in a cycle: 1024 bytes of 128 lanes and two engines."""
    assert copied_bound(PATENT, 1024, 1).cycles == copied_bound(PATENT, 512, 2).cycles == 1 + 1
    assert copied_bound(PATENT, 1025, 1).cycles == 2 + 1


def test_what_shares_bytes_is_calculated_by_hand():
    """Every byte of 64 x 4096, but one of 64 in a line: 258,048, and 1,024 in a cycle."""
    unpacked = one("relayout", "pred[64,4096]{1,0:E(1)}", "pred[64,4096]{0,1}")
    (found,) = operation_bounds(unpacked, PATENT)
    assert (found.bound.cycles, found.bound.why) == (252 + 1, "lanes that calculate")
    packed = one("relayout", "pred[64,4096]", "pred[64,4096]{1,0:E(1)}")
    (found,) = operation_bounds(packed, PATENT)
    assert (found.bound.cycles, found.bound.why) == (16 + 1, "lanes that calculate")


@pytest.mark.parametrize(
    ("graph", "cycles", "why"),
    [
        (one("reshape", "f32[6,10,7]", "f32[60,7]"), 0, "nothing need be busy"),
        (one("reshape", "f32[6,4]", "f32[8,3]"), 1 + 1, "lanes and DMA queues that copy"),
        (one("transpose", "f32[8,6]{0,1}", "f32[6,8]", (1, 0)), 0, "nothing need be busy"),
        (one("transpose", "f32[128,64]", "f32[64,128]", (1, 0)), 510, "moving vectors of pe_array"),
        (one("relayout", "f32[128,64]", "f32[128,64]{0,1}"), 510, "moving vectors of pe_array"),
        (one("reshape", "f32[6,4]", "f32[24]", (), ("dram", "dram")), 642 + 4, "DRAM bandwidth"),
        (one("transpose", "f32[5,4]", "f32[4,5]", (1, 0), ("dram", "state_buffer")), 642 + 2,
         "DRAM bandwidth"),
    ],
)  # fmt: skip
def test_which_form_holds(graph, cycles, why):
    (found,) = operation_bounds(graph, PATENT)
    if cycles == 510:  # Fig. 4 whole: N + K + (R - 1) + (N - 1) + 1 + latency, and one to be seen
        cycles = 64 + 128 - 1 + (127 + 63) + 1 + 1 + 1
    assert (found.bound.cycles, found.bound.why) == (cycles, why)


@pytest.mark.parametrize("seed", quick_first(range(120), 13))
def test_no_move_beats_its_bound(seed):
    rng = Random(seed)
    chip = random_chip(rng)
    if seed % 4 == 3:
        chip = spread_over_engines(chip, aside(rng, "spread"))
    dims = [rng.randint(1, 12) for _ in range(rng.randint(2, 4))]
    kind = rng.choice(["transpose", "relayout", "reshape"])
    axes: list[int] = []
    result = list(dims)
    if kind == "transpose":
        axes = rng.sample(range(len(dims)), len(dims))
        result = [dims[axis] for axis in axes]
    elif kind == "reshape":
        result = [dims[0] * dims[1], *dims[2:]]
    dtype = rng.choice(["f32", "bf16", "s8", "s32"])
    texts = [
        f"{dtype}[{','.join(map(str, d))}]{random_layout(rng, len(d))}" for d in (dims, result)
    ]
    homes = rng.choices(["state_buffer", "dram"], k=2)
    options = Options(via=rng.choice([None, None, "pe", "dram"]))
    graph = one(kind, *texts, axes, homes)
    try:
        run = systolic.run(graph, chip, options=options)
    except SystolicError as error:
        assert is_for_room(error) or "cannot take" in str(error)  # noqa: PT017
        return
    assert run.trace.cycles() >= run_bound(graph, chip, options).cycles


@pytest.mark.parametrize(("side", "products"), [(4, False), (8, True)])
def test_the_cost_model_chooses_where_the_run_file_does_not(side, products):
    """From DRAM to DRAM a transposing DMA is quicker for 4 x 4, the array from 8 x 8 on."""
    cycles = {}
    for via in ("pe", "dram", None):
        told = [f"compile.via={via}"] if via else []
        run = load_run(CONFIGS / "runs" / "transpose_dram.toml",
                       [f"workload.shape=f32[{side},{side}]", *told])  # fmt: skip
        result = systolic.run(run, values=False)
        cycles[via] = result.summary["cycles"]
    assert ("MatMul" in result.summary["instructions"]) == products
    assert cycles[None] == min(cycles.values())


def test_a_type_the_array_cannot_take_is_moved_by_others():
    graph = one("transpose", "s32[5,7]", "s32[7,5]", (1, 0))
    run = systolic.run(graph, ideal_chip(4, 4))
    assert "MatMul" not in run.compiled.program.count()
