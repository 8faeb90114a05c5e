"""Bounds worked out by hand, on units with clocks of their own: no more and no less.

Ticks are of 3000 MHz: 3000, 1500, 1000 and 600 MHz are cycles of 1, 2, 3 and 5 ticks. Where a run
comes out at its bound, the bound is not too high; where it is a number of the test's comment, it
is not too low either.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import systolic
from support.axes import told
from support.chips import ideal_chip
from systolic.compiler import Options
from systolic.compiler.bounds.run import operation_bounds, run_bound
from systolic.config import load_run
from systolic.errors import SimulationError
from systolic.hw.formulas.moves import bounce_bound, copied_bound
from systolic.hw.formulas.products import Product, Turn, product_bound
from systolic.hw.formulas.ticks import UnitRate, after, least_end
from systolic.hw.formulas.timing import dram_bound, transpose_bound
from systolic.workload import Graph, GraphBuilder

RUNS = Path(__file__).resolve().parents[3] / "configs" / "runs"
ACTIVATION = Options(drain_engine="activation")
MHZ = {1: 3000, 2: 1500, 3: 1000, 5: 600}


def clocked(periods=(2, 3, 5, 5), rows=2, cols=2, **tables):
    """A chip whose array, activation, pooling and DMA have cycles of so many ticks."""
    units = dict(zip(("pe_array", "activation", "pooling", "dma"), periods, strict=True))
    clock = {f"t{ticks}": MHZ[ticks] for ticks in MHZ}
    tables = {**tables}
    for unit, ticks in units.items():
        tables[unit] = {**tables.get(unit, {}), "clock": f"t{ticks}"}
    return ideal_chip(rows, cols, clock=clock, **tables)


def product(lhs: str, rhs: str, out: str, home="state_buffer") -> Graph:
    builder = GraphBuilder(home)
    builder.matmul(builder.tensor("x", lhs), builder.tensor("w", rhs), out, name="y")
    return builder.graph()


def move(kind: str, source: str, result: str, axes=(), homes=("state_buffer",) * 2) -> Graph:
    builder = GraphBuilder(homes[1])
    builder.add(kind, (builder.tensor("x", source, homes[0]),), result, name="y", **told(axes))
    return builder.graph()


def reached(graph: Graph, chip, ticks: int, why: str, options: Options | None = None) -> None:
    bound = run_bound(graph, chip, options)
    assert (bound.ticks, bound.why) == (ticks, why)
    assert systolic.run(graph, chip, options=options).trace.ticks == ticks


def test_a_step_begins_at_an_edge_of_its_clock():
    chip = clocked()
    assert after(chip, 7, "pe_array", 0) == 8
    assert after(chip, 8, "pe_array", 3) == 14
    assert after(chip, 8, "activation", 1) == 12
    assert after(chip, 10, "dma", 1) == 15


def test_ways_share_work_cycle_by_cycle():
    """From tick 4: the first takes 1 in [6, 9), [9, 12), ..., the other 2 in [5, 10), [10, 15)."""
    ways = [UnitRate(3, 1, 1), UnitRate(5, 2, 1)]
    assert [least_end(4, amount, ways) for amount in range(1, 8)] == [9, 10, 10, 12, 15, 15, 15]
    assert least_end(4, 0, ways) == 4
    assert least_end(4, 1, [UnitRate(3, 1, 3)]) == 15  # taken in [6, 9), over two cycles later


def test_the_least_product_on_four_clocks():
    """Load in [0, 2), vector in [2, 4), sum at D = 1 in [4, 6), seen at 6; read in activation's
    [6, 9), written in [9, 12)."""
    chip = clocked()
    reached(
        product("f32[1,1]{0,1}", "f32[1,1]", "f32[1,1]"), chip, 12, "moving vectors of pe_array"
    )


def test_the_least_product_from_dram_to_dram():
    """Bytes in the DMA's cycle 3 = [15, 20), seen at 20; load, vector, sum in [20, 26); read in
    [27, 30), written in [30, 33), seen at 33; the copy begins at 35, its byte is in [50, 55)."""
    chip = clocked(dma={"queues": 4, "latency_cycles": 2}, dram={"latency_cycles": 1})
    graph = product("f32[1,1]{0,1}", "f32[1,1]", "f32[1,1]", "dram")
    reached(graph, chip, 55, "moving vectors of pe_array")


@pytest.mark.parametrize(("semaphore", "latency", "ticks"), [(1, 1, 55), (3, 1, 75), (1, 4, 65)])
def test_posts_and_latencies_are_in_the_clock_of_their_unit(semaphore, latency, ticks):
    """Posts of three cycles: bytes seen at 30, sum in [34, 36), seen at 40; read in [42, 45),
    written in [45, 48), seen at 54; copy from 55 on, byte in [70, 75). A latency of four: written
    in [39, 42), seen at 42, copy from 45 on, byte in [60, 65)."""
    chip = clocked(
        semaphore_cycles=semaphore, dma={"queues": 4, "latency_cycles": 2},
        dram={"latency_cycles": 1}, activation={"latency_cycles": latency},
        pooling={"latency_cycles": 40},
    )  # fmt: skip
    graph = product("f32[1,1]{0,1}", "f32[1,1]", "f32[1,1]", "dram")
    reached(graph, chip, ticks, "moving vectors of pe_array")


@pytest.mark.parametrize(
    ("serial", "ticks"),
    [((), 55), (("dma",), 85), (("activation",), 60), (("dma", "activation"), 90),
     (("dma", "activation", "pe_array"), 100)],
)  # fmt: skip
def test_serial_dispatch_is_reached(serial, ticks):
    """DMA's takes 3 cycles: byte in [30, 35), seen at 35; load, vector, sum in [36, 42), read in
    [42, 45), written in [45, 48); copy ready at 50, started at 65, byte in [80, 85). Activation's
    takes 2: after [20, 26) read in [33, 36), written in [36, 39), copy from 40, byte in [55, 60).
    Both: sum seen at 42, read in [48, 51), written in [51, 54), copy ready at 55, 30 later 85 to
    90. The array's takes 2, twice: load from 40, vector from 46, sum seen at 50, read in [57, 60),
    written in [60, 63), copy ready at 65."""
    cycles = {"dma": 3, "activation": 2, "pe_array": 2}
    keys = {unit: {"dispatch_cycles": cycles[unit], "dispatch": "serial"} for unit in serial}
    chip = clocked(
        dma={"queues": 4, "latency_cycles": 2} | keys.get("dma", {}), dram={"latency_cycles": 1},
        activation=keys.get("activation", {}), pooling={"latency_cycles": 40},
        pe_array=keys.get("pe_array", {}),
    )  # fmt: skip
    graph = product("f32[1,1]{0,1}", "f32[1,1]", "f32[1,1]", "dram")
    reached(graph, chip, ticks, "moving vectors of pe_array", ACTIVATION)


def test_overlapped_dispatch_delays_no_first_instruction():
    tables = {unit: {"dispatch_cycles": 50} for unit in ("dma", "activation", "pooling")}
    tables["dma"] |= {"queues": 4, "latency_cycles": 2}
    graph = product("f32[1,1]{0,1}", "f32[1,1]", "f32[1,1]", "dram")
    chip = clocked(dram={"latency_cycles": 1}, **tables)
    reached(graph, chip, 55, "moving vectors of pe_array")


def test_an_engine_gets_ready_before_it_reads():
    """Sum seen at 26, 4 cycles of getting ready from 27 on: read in [39, 42), written in [42, 45);
    copy from 45, byte in [60, 65). Pooling, from 30, would have written at 40 + 10 + 200."""
    chip = clocked(
        dma={"queues": 4, "latency_cycles": 2}, dram={"latency_cycles": 1},
        activation={"fixed_cycles": 4}, pooling={"latency_cycles": 40},
    )  # fmt: skip
    graph = product("f32[1,1]{0,1}", "f32[1,1]", "f32[1,1]", "dram")
    reached(graph, chip, 65, "moving vectors of pe_array", ACTIVATION)


def test_vectors_are_reached_if_they_are_copied_out_together():
    """Reads in 0 and 1, vectors in 2 and 6, sums in 7 and 8, seen in 9, at tick 18; both words are
    read in [18, 21), written in [21, 24)."""
    chip = clocked(pe_array={"cycles_per_vector": {"f32": 4}},
                   activation={"elements_per_cycle": 2})  # fmt: skip
    graph = product("f32[2,1]{0,1}", "f32[1,2]", "f32[2,2]{0,1}")
    reached(graph, chip, 24, "moving vectors of pe_array", Options(stationary="rhs"))


def test_weight_loads_are_reached():
    """Three K-tiles of two columns: reads in 0 to 5, last vector in 6, sums in 7 and 8, seen in 9,
    at tick 18; read in [18, 21), written in [21, 24)."""
    graph = product("f32[1,6]{0,1}", "f32[6,2]", "f32[1,2]{0,1}")
    reached(graph, clocked(), 24, "weight loads of pe_array", Options(stationary="rhs"))


def test_the_only_port_is_reached():
    """Two K-tiles of one column: read, vector, read, vector in 0 to 3, sum in 4, seen in 5, at
    tick 10; read in [12, 15), written in [15, 18). With two banks vectors are in 1 and 2, the sum
    is seen in 4, at tick 8; read in [9, 12), written in [12, 15)."""
    graph = product("f32[1,4]{0,1}", "f32[4,1]", "f32[1,1]")
    why = "read port of the state buffer's only bank"
    reached(graph, clocked(state_buffer={"banks": 1}), 18, why)
    reached(graph, clocked(), 15, "moving vectors of pe_array")


def test_both_engines_drain():
    """6 x 1 x 6 on two columns: three tiles of six words each, 18 of a lane, from tick 3 on, when
    the first is seen. Activation reads a word in [3, 6), [6, 9), ... and has written it three
    ticks later: T // 3 - 2 by tick T. Pooling reads two in [5, 10), ..., and has written them ten
    ticks later: 2 * (T // 5 - 3). By tick 35 that is 9 + 8, by tick 36 it is 10 + 8."""
    chip = clocked((1, 3, 5, 5), pooling={"elements_per_cycle": 2, "latency_cycles": 2})
    bound = product_bound(chip, Product(1, 6, 1, 6, "f32"))
    assert (bound.ticks, bound.why) == (36, "drain by both engines")
    # To DRAM: the copy of the last word begins at 40, its byte is in [40, 45).
    assert product_bound(chip, Product(1, 6, 1, 6, "f32"), to_dram=True).ticks == 45


def test_the_drain_of_a_transpose_is_reached():
    """Load in 0, vectors in 1 to 4, the first sum in 4 (D = 3), seen in 5; rows are read in
    [6, 9), [9, 12), [12, 15), [15, 18), the last is written in [18, 21)."""
    chip = clocked((1, 3, 1, 1), rows=4, cols=4)
    graph = move("transpose", "f32[4,1]", "f32[1,4]", (1, 0))
    options = Options(via="pe", drain="row", drain_engine="activation", block=(4, 4))
    reached(graph, chip, 21, "drain by activation", options)


def test_the_drain_begins_when_the_first_sum_is_seen():
    """Six rows: the first sum in 6 (D = 5), seen in 7; rows are read in [9, 12) to [18, 21), the
    last is written in [21, 24). If it were seen in 6 all that would be three ticks earlier."""
    chip = clocked((1, 3, 1, 1), rows=6, cols=4)
    bound = transpose_bound(chip, [(4, 1)], "f32", "activation")
    assert (bound.ticks, bound.why) == (24, "drain by activation")


def test_what_comes_from_dram_goes_back():
    """1,000 bytes in and 1,000 out, 64 in a DMA cycle of five ticks: 32 cycles."""
    chip = clocked()
    assert transpose_bound(chip, [(2, 1)], "f32", "activation", 1000).ticks == 32 * 5


def test_the_drain_is_that_of_the_engine_chosen():
    """Four words of a lane: as above with activation, a word in a tick with pooling."""
    chip = clocked((1, 3, 1, 1), rows=4, cols=4)
    assert transpose_bound(chip, [(4, 1)], "f32", "activation").ticks == 21
    # Load in 0, vectors to 4, the last sum in 7, seen in 8, read there, written in 9.
    assert transpose_bound(chip, [(4, 1)], "f32", "pooling").ticks == 10


def test_the_loads_of_a_transpose():
    """Three tiles of 2 rows and 4 columns: 12 reads, then two vectors in 12 and 13; the last
    sum 3 + 3 later in 19, seen and read in 20, written in 21."""
    chip = clocked((1, 1, 1, 1), rows=4, cols=4, pe_array={"cycles_per_vector": {"f32": 1}})
    assert transpose_bound(chip, [(2, 4)] * 3, "f32", "pooling").ticks == 12 + 1 + 6 + 1 + 1 + 1
    slow = clocked((1, 1, 1, 1), rows=4, cols=4, pe_array={"cycles_per_vector": {"f32": 2}})
    # The two vectors of the tile loaded last are two cycles apart, in 12 and 14.
    assert transpose_bound(slow, [(2, 4)] * 3, "f32", "pooling").ticks == 12 + 2 + 6 + 1 + 1 + 1


def test_the_port_of_a_transpose():
    """Two tiles of 2 x 1: 2 reads and 4 vectors through one port, the last in cycle 5; its sum
    1 later in 6, seen in 7, read in 7, written in 8."""
    chip = clocked((1, 1, 1, 1), state_buffer={"banks": 1}, activation={"elements_per_cycle": 4})
    bound = transpose_bound(chip, [(2, 1)] * 2, "f32", "activation")
    assert (bound.ticks, bound.why) == (9, "read port of the state buffer's only bank")
    # 2 x 2: 4 reads, the last vector in 7, its last sum 1 + 1 later in 9, seen in 10.
    assert transpose_bound(chip, [(2, 2)] * 2, "f32", "activation").ticks == 12


def test_the_ports_of_partitions():
    """Tiles begin in partition 0 (or R, 2R, ...): its port is used by all reads and vectors."""
    engine = {"elements_per_cycle": 4}

    def bound(**keys):
        split = {"banks": 1, "port_scope": "partition"} | keys.pop("state_buffer", {})
        chip = clocked((1, 1, 1, 1), state_buffer=split, activation=engine, **keys)
        return transpose_bound(chip, [(2, 2)] * 2, "f32", "activation")

    assert (bound().ticks, bound().why) == (12, "read port of the state buffer's only bank")
    # Two groups of R partitions: weights may lie in one, vectors in the other. Then loads take 0
    # and 1, vectors 2 to 5, the last sum is there in 7, seen in 8, and written in 9.
    assert bound(state_buffer={"partitions": 4}).ticks == 10
    # From the top each row takes the port of its own partition alone.
    assert bound(pe_array={"weight_path": "top"}).ticks == 10


def test_a_schedule_with_one_tile_more_may_be_shorter():
    """Nine columns on three, four at a time: three loads of a read each, vectors in 1 to 3, the
    last sum 3 + 2 later in 8, written in 10. In four tiles, the last of one column: the
    last vector in 4, its sum 3 later in 7, written in 9."""
    chip = clocked((1, 1, 1, 1), rows=4, cols=3, pe_array={"fast_load": 4},
                   state_buffer={"partitions": 8})  # fmt: skip
    graph = product("f32[1,4]{0,1}", "f32[4,9]", "f32[1,9]{0,1}")
    assert run_bound(graph, chip).ticks == 10
    run = systolic.run(graph, chip, options=Options(stationary="rhs"))
    loads = [i for i in run.compiled.program.instructions if type(i).__name__ == "LoadWeights"]
    assert [load.weights.elements for load in loads] == [3, 3, 2, 1]  # no tile across 8 partitions


def test_a_schedule_with_two_tiles_more_may_be_shorter():
    """4 x 6 by the top path, one vector: whole, 4 reads and 5 cycles to the last column; in two
    tiles, 4 reads and a vector more. In three, one of a row first and one of a column last, there
    are still 4 reads before the last vector: it is in 4, its sum 3 later in 7, written in 9."""
    chip = clocked((1, 1, 1, 1), rows=4, cols=6, pe_array={"weight_path": "top"})
    assert product_bound(chip, Product(1, 1, 4, 6, "f32")).ticks == 10
    # 8 rows, four at a time: 2 reads; in two tiles the last vector is in 3, its sum 7 later.
    fast = clocked((1, 1, 1, 1), rows=8, cols=6, pe_array={"weight_path": "top", "fast_load": 4})
    assert product_bound(fast, Product(1, 1, 8, 6, "f32")).ticks == 3 + 7 + 3


def test_reads_of_several_columns_are_counted_over_all_tiles():
    """Eight columns on five, four at a time: two reads, as 4 + 4; 5 + 3 would take three."""
    graph = product("f32[1,4]{0,1}", "f32[4,8]", "f32[1,8]{0,1}")
    chip = clocked((1, 1, 1, 1), rows=4, cols=5, pe_array={"fast_load": 4})
    assert systolic.run(graph, chip).trace.ticks >= run_bound(graph, chip).ticks


def test_bandwidth_and_latency_of_dram_are_reached():
    """Eight bytes at two in a cycle, after 5 + 3 cycles of latency: 12 DMA cycles of 5 ticks."""
    chip = clocked((1, 1, 1, 5), dma={"latency_cycles": 5}, dram={"latency_cycles": 3,
                   "bytes_per_cycle": 2})  # fmt: skip
    graph = move("reshape", "f32[1,2]", "f32[2]", (), ("state_buffer", "dram"))
    reached(graph, chip, 60, "DRAM bandwidth")
    assert dram_bound(chip, 9).ticks == 65
    # Queues of a byte each bring less than DRAM has; the array's cycles are 2 ticks: 18 cycles.
    narrow = clocked((2, 3, 5, 5), dma={"queues": 3, "bytes_per_cycle": 1, "latency_cycles": 4})
    assert (dram_bound(narrow, 9).ticks, dram_bound(narrow, 9).cycles) == (35, 18)


def test_dma_in_its_own_clock_is_reached_through_dram():
    """2 x 2 float32, a fetch and 4 bytes in a cycle: 2 rows out, 7 + 2 * 3, 4 elements back, 7 +
    4 * 2: 28 DMA cycles of 3 ticks."""
    chip = clocked((1, 1, 1, 3), dma={"latency_cycles": 5, "descriptor_cycles": 1,
                   "bytes_per_cycle": 4}, dram={"latency_cycles": 2})  # fmt: skip
    graph = move("transpose", "f32[2,2]", "f32[2,2]", (1, 0))
    reached(graph, chip, 84, "descriptors of all DMA queues", Options(via="dram"))
    # Ten blocks: 280 cycles over two queues.
    assert bounce_bound(chip, [(2, 2)] * 10, 4).ticks == 140 * 3


def test_bounces_are_dispatched():
    """As above, each of the two copies 4 cycles later: 36 DMA cycles of 3 ticks."""
    serial = {"dispatch_cycles": 4, "dispatch": "serial"}
    chip = clocked((1, 1, 1, 3), dma={"latency_cycles": 5, "descriptor_cycles": 1,
                   "bytes_per_cycle": 4, **serial}, dram={"latency_cycles": 2})  # fmt: skip
    graph = move("transpose", "f32[2,2]", "f32[2,2]", (1, 0))
    reached(graph, chip, 36 * 3, "descriptors of all DMA queues", Options(via="dram"))
    assert dram_bound(chip, 9).ticks == (4 + 7 + 2) * 3  # two queues of 4 bytes in a cycle


BURSTS = [
    # in hand, cost, fetch, cycles of 4 rows of 16 bytes out and of 16 elements back, by hand:
    (1, "sum", 2, 4 * (2 + 4) + 16 * (2 + 4)),
    (1, "max", 2, 4 * 4 + 16 * 4),
    (4, "sum", 0, 4 + 4 * 4),  # four buses
    (4, "sum", 2, (2 + 3 * 2 + 4) + (2 + 15 * 2 + 4)),  # the last is fetched, then its burst
    (4, "max", 2, (3 * 2 + 4) + (15 * 2 + 4)),
    (4, "max", 7, 4 * 7 + 16 * 7),
    (2, "sum", 1, (1 + 2 * 4) + (1 + 8 * 4)),  # two buses at once
    (2, "max", 1, 2 * 4 + 8 * 4),
]


@pytest.mark.parametrize(("in_hand", "cost", "fetch", "cycles"), BURSTS)
def test_bounces_with_several_bursts_in_hand(in_hand, cost, fetch, cycles):
    """4 x 4 float32 by bursts of 16 bytes, 4 cycles each, on four channels: behind 7 cycles of
    latency out and back. With several in hand the next descriptors are fetched meanwhile."""
    chip = ideal_chip(
        4, 4,
        dma={"queues": 1, "latency_cycles": 5, "descriptor_cycles": fetch, "descriptor_cost": cost,
             "bytes_per_cycle": 16},
        dram={"latency_cycles": 2, "bytes_per_cycle": 16, "organisation": {
            "channels": 4, "banks": 4, "row_bytes": 1024, "burst_bytes": 16, "interleave_bytes": 16,
            "activate_cycles": 0, "precharge_cycles": 0, "outstanding": in_hand}},
    )  # fmt: skip
    graph = move("transpose", "f32[4,4]", "f32[4,4]", (1, 0))
    bound = run_bound(graph, chip, Options(via="dram"))
    assert (bound.ticks, bound.why) == (2 * 7 + cycles, "descriptors of all DMA queues")
    taken = systolic.run(graph, chip, options=Options(via="dram")).trace.ticks
    assert bound.ticks <= taken <= bound.ticks + 2 * (fetch + 4)


@pytest.mark.parametrize(("elements", "ticks"), [(29, 18), (30, 20)])
def test_lanes_and_queues_copy_in_their_own_clocks(elements, ticks):
    """By tick T activation has written 16 * (T // 3 - 1) bytes (2 lanes of 2 float32, latency 1),
    pooling 8 * (T // 5 - 2) (1 float32, latency 2), DMA 6 * (T // 2 - 4) (two queues of 3 bytes,
    latency 4): 80 + 8 + 30 = 118 by tick 18, no more by 19, 80 + 16 + 36 by 20. 29 elements are
    116 bytes, by tick 17 there are 64 + 8 + 24."""
    chip = clocked((1, 3, 5, 2), activation={"elements_per_cycle": 2},
                   pooling={"latency_cycles": 2},
                   dma={"latency_cycles": 4, "bytes_per_cycle": 3})  # fmt: skip
    assert copied_bound(chip, elements, 4).ticks == ticks


@pytest.mark.parametrize(("elements", "ticks"), [(29, 22), (30, 24)])
def test_lanes_and_queues_begin_when_they_are_dispatched(elements, ticks):
    """As above, activation a cycle later, pooling a cycle of getting ready, DMA two cycles: 16 *
    (T // 3 - 2), 8 * (T // 5 - 3) and 6 * (T // 2 - 6) bytes by tick T: 80 + 8 + 24 by 21, 80 +
    8 + 30 = 118 by 22 and 23, 96 + 8 + 36 by 24."""
    chip = clocked((1, 3, 5, 2),
                   activation={"elements_per_cycle": 2, "dispatch_cycles": 1, "dispatch": "serial"},
                   pooling={"latency_cycles": 2, "fixed_cycles": 1},
                   dma={"latency_cycles": 4, "bytes_per_cycle": 3, "dispatch_cycles": 2,
                        "dispatch": "serial"})  # fmt: skip
    assert copied_bound(chip, elements, 4).ticks == ticks


@pytest.mark.parametrize(
    ("engine", "ticks"),
    [
        ({"dispatch_cycles": 16}, 2716),  # as in the case below
        ({"dispatch_cycles": 15, "dispatch": "serial"}, 2721),  # T / 4 + 2 * (T - 1) / 16 >= 1020
        ({"min_interval_cycles": 12, "dispatch_cycles": 4, "dispatch": "serial"}, 2717),
        ({"min_interval_cycles": 16, "dispatch_cycles": 9}, 2716),
    ],
)
def test_instructions_one_by_one_are_dispatched(engine, ticks):
    """The first of 15 + 1 apart comes 15 cycles late, of 12 + 4 apart 4: (T + 14 - 4) / 16."""
    chip = ideal_chip(4, 4, pe_array={"cycles_per_vector": {"f8e4m3fn": 1}},
                      activation=engine, pooling=engine,
                      dma={"queues": 1, "descriptor_cycles": 3, "bytes_per_cycle": 4})  # fmt: skip
    bound = product_bound(chip, Product(1, 1, 255, 4, "f8e4m3fn", (Turn(1, 4, 255, "f32"),)))
    assert (bound.ticks, bound.why) == (ticks, "elements turned one by one")


def test_elements_turned_one_by_one():
    """What the array cannot take: 1020 elements, by DMA one in 3 + 1 cycles, by each engine one in
    16, the first at once: T / 4 + 2 * (T + 14) / 16 >= 1020 from tick 2716 on."""
    engine = {"min_interval_cycles": 16}
    chip = ideal_chip(4, 4, pe_array={"cycles_per_vector": {"f8e4m3fn": 1}},
                      activation=engine, pooling=engine,
                      dma={"queues": 1, "descriptor_cycles": 3, "bytes_per_cycle": 4})  # fmt: skip
    bound = product_bound(chip, Product(1, 1, 255, 4, "f8e4m3fn", (Turn(1, 4, 255, "f32"),)))
    assert (bound.ticks, bound.why) == (2716, "elements turned one by one")


@pytest.mark.parametrize(("dtype", "turns"), [("f32", 4), ("f16", 2)])
def test_bytes_of_elements_are_turned(dtype, turns):
    """An array of bf16 turns each byte of a 4 x 255 operand as bf16: so many matrices of it.

    Engines and the DMA queue are too slow to move 1,020 elements one by one meanwhile.
    """
    engine = {"min_interval_cycles": 64, "independent_lanes": False}
    chip = ideal_chip(4, 4, pe_array={"cycles_per_vector": {"bf16": 1}},
                      activation=engine, pooling=engine,
                      dma={"queues": 1, "descriptor_cycles": 60, "bytes_per_cycle": 4})  # fmt: skip
    found, expected = (
        product_bound(chip, Product(1, 1, 255, 4, "bf16", (turn,)))
        for turn in (Turn(1, 4, 255, dtype), Turn(turns, 4, 255, "bf16"))
    )
    assert found == expected
    assert found.why != "elements turned one by one"


def test_vectors_of_all_products():
    """Three products of one vector, each 30 cycles: the last may enter 60 cycles after the first.

    Load in [0, 2), first vector at 2, last at 122; its sum in [124, 126), seen at 126; read in
    [126, 129), written in [129, 132).
    """
    chip = clocked(pe_array={"cycles_per_vector": {"f32": 30}})
    builder = GraphBuilder("state_buffer")
    now = builder.tensor("x", "f32[1,1]{0,1}")
    for number in range(3):
        weights = builder.tensor(f"w{number}", "f32[1,1]")
        now = builder.matmul(now, weights, "f32[1,1]", name=f"y{number}")
    bound = run_bound(builder.graph(), chip)
    why = "moving vectors of pe_array, all products"
    assert (bound.ticks, bound.cycles, bound.why) == (132, 66, why)


def two_products(*, home: str = "dram", first: str = "{1,0}", second: str = "{0,1}") -> Graph:
    """Return y0 = x w0 and y1 = x w1, x of 8 x 8; first, second: the layouts of the weights."""
    builder = GraphBuilder(home)
    x = builder.tensor("x", "f32[8,8]{1,0}")
    for number, layout in enumerate((first, second)):
        weights = builder.tensor(f"w{number}", f"f32[8,8]{layout}")
        builder.matmul(x, weights, "f32[8,8]", name=f"y{number}")
    return builder.graph()


@pytest.mark.parametrize(("second", "turned"), [("{1,0}", 1), ("{0,1}", 2)])
@pytest.mark.parametrize("home", ["state_buffer", "dram"])
def test_what_two_products_take_is_turned_once(home, second, turned):
    """Four tiles of 8 vectors for each product, two tiles of 8 for each turn, on 4 x 4.

    A tile loads in 4 cycles, and a sum goes 3 cells down and 3 across; it is seen, read and written
    a cycle later each. From DRAM the first byte is seen 26 cycles later, and the last is there 26
    cycles after it could be read.
    """
    rare = {"min_interval_cycles": 999}  # engines do not turn an operand in less time
    dma = {"queues": 1, "latency_cycles": 20, "descriptor_cycles": 99, "bytes_per_cycle": 1024}
    dram = {"latency_cycles": 5, "bytes_per_cycle": 1024}
    chip = ideal_chip(4, 4, pooling=rare, activation=rare, dma=dma, dram=dram)
    bound = run_bound(two_products(home=home, second=second), chip)
    vectors = 2 * 4 * 8 + turned * 2 * 8
    outside = (20 + 5 + 1) + (20 + 5 + 1) if home == "dram" else 0
    assert bound.why == "moving vectors of pe_array, all products"
    assert bound.cycles == 4 + vectors - 1 + (3 + 3) + 3 + outside
    assert systolic.run(two_products(home=home, second=second), chip).trace.ticks >= bound.ticks


def test_products_wait_for_what_is_turned_without_the_array():
    """64 elements of an operand through 16 queues, a cycle each: no vector is needed for turns."""
    rare = {"min_interval_cycles": 999}
    dma = {"queues": 16, "descriptor_cycles": 0, "bytes_per_cycle": 4}
    chip = ideal_chip(4, 4, pooling=rare, activation=rare, dma=dma)
    bound = run_bound(two_products(home="state_buffer"), chip)
    assert bound.cycles == 4 + 2 * 4 * 8 - 1 + (3 + 3) + 3


def test_fast_engines_are_not_charged_array_cycles():
    """Activation at 4 GHz with a latency of 100: 25 ns, 25 cycles of the array, not 100."""
    fast = {"latency_cycles": 100, "clock": "fast"}
    chip = ideal_chip(4, 4, clock={"core": 1000, "fast": 4000}, activation=fast)
    graph = move("transpose", "f32[4,4]", "f32[4,4]", (1, 0))
    run, bound = systolic.run(graph, chip), run_bound(graph, chip)
    assert bound.ticks <= run.trace.ticks
    # Load 0 to 3, vectors 4 to 7, the last sum in 13, seen in 14; read, and written 25 ns later.
    assert bound.cycles == 14 + 26


def test_a_run_shorter_than_its_bound_is_refused(monkeypatch):
    config = load_run(RUNS / "transpose_fig3.toml")
    longer = type(run_bound(config.graph, config.chip))(20, "a reason", 1)
    monkeypatch.setattr("systolic.run.execute.run_bound", lambda *_: longer)
    with pytest.raises(SimulationError, match=r"took 19 cycles \(19 ticks\), less than its lower "
                       r"bound 20 \(20 ticks, a reason\): one of them is wrong"):  # fmt: skip
        systolic.run(config, values=False)


@pytest.mark.parametrize(
    ("kind", "source", "result", "homes", "axes"),
    [
        ("reshape", "f32[6,4]{0,1}", "f32[24]", ("dram", "dram"), ()),
        ("reshape", "f32[6,4]", "f32[24]", ("dram", "dram"), ()),
        ("reshape", "f32[6,4]", "f32[8,3]{0,1}", ("dram", "dram"), ()),
        ("reshape", "f32[6,4]", "f32[8,3]", ("state_buffer", "state_buffer"), ()),
        ("relayout", "f32[6,4]", "f32[6,4]{0,1}", ("dram", "dram"), ()),
        ("relayout", "f32[6,4]", "f32[6,4]", ("dram", "state_buffer"), ()),
        ("relayout", "f32[6,4]", "f32[6,4]{0,1}", ("dram", "state_buffer"), ()),
        ("relayout", "f32[6,4]", "f32[6,4]", ("state_buffer", "dram"), ()),
        ("transpose", "f32[6,4]", "f32[4,6]", ("dram", "state_buffer"), (1, 0)),
        ("transpose", "f32[6,4]", "f32[4,6]", ("state_buffer", "state_buffer"), (1, 0)),
        ("cast", "f32[6,4]", "bf16[6,4]", ("dram", "dram"), ()),
        ("cast", "f32[6,4]", "bf16[6,4]{0,1}", ("state_buffer", "dram"), ()),
    ],
)
@pytest.mark.parametrize("identity", ["stored", "built"])
def test_a_lone_operation_is_under_way_for_the_whole_run(
    kind, source, result, homes, axes, identity
):
    """So it is under any name, on clocks of which the slowest ends the run."""
    graph = move(kind, source, result, axes, homes)
    (op,) = graph.operations
    renamed = Graph(
        graph.tensors, (replace(op, name=kind),)
    )  # as a run file of one operation has it
    chip = clocked((2, 3, 5, 5), rows=4, cols=4, dma={"latency_cycles": 3})
    run = systolic.run(renamed, chip, options=Options(identity=identity))
    (record,) = run.summary["operations"]
    assert set(run.compiled.synchronised.layers) == {kind}
    assert record["cycles"] == run.trace.cycles() >= record["bound"]["cycles"]


def test_the_bound_of_an_operation_that_moves_nothing():
    graph = move("reshape", "f32[6,10,7]", "f32[60,7]")
    (found,) = operation_bounds(graph, clocked())
    assert (found.bound.ticks, found.bound.why) == (0, "nothing need be busy")


def test_what_stays_on_the_chip_between_products_is_no_traffic():
    """At a byte per cycle: x (8 bytes) and w1 (16) for the first product, w2 (16) and y (8) for
    the second. By the graph's default h lives in DRAM, but only the second product needs it.
    """
    builder = GraphBuilder("dram")
    names = {"x": "f32[1,2]", "w1": "f32[2,2]", "w2": "f32[2,2]"}
    x, w1, w2 = (builder.tensor(name, shape) for name, shape in names.items())
    h = builder.matmul(x, w1, "f32[1,2]", name="h")
    builder.matmul(h, w2, "f32[1,2]", name="y")
    chip = ideal_chip(2, 2, dram={"bytes_per_cycle": 1, "latency_cycles": 0})
    least = dram_bound(chip, 16 + 8).ticks  # of either product
    for operation in operation_bounds(builder.graph(), chip):
        assert least <= operation.bound.ticks < least + 8 * chip.period("dma")


@pytest.mark.parametrize(
    ("tiles", "cycles"),
    [
        ([(4, 4)], 4 + 4 + 4 + 4),
        ([(4, 1)], 1 + 4 + 4 + 1),
        ([(1, 1)], 1 + 1 + 4 + 1),
        ([(4, 4), (4, 4)], 4 + 8 + 4 + 4),
        ([(4, 4), (4, 1)], 1 + 8 + 4 + 1),
        ([(4, 1), (4, 4)], 1 + 8 + 4 + 1),
    ],
)
def test_the_least_first_load_and_the_narrowest_last_tile(tiles, cycles):
    """On 4 x 4: the shortest load, every vector, four rows down, and the columns of the last tile.

    A load reads a column a cycle. Any tile may come first, and any last.
    """
    assert transpose_bound(ideal_chip(4, 4), tiles, "f32", "activation").cycles == cycles
