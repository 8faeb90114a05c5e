"""Do bounds know of fetch, dispatch and intervals? Worked by hand, and close to what runs take.

A load has 58 bytes at least, a multiply 108, an engine's copy 111, a DMA queue's 115: an opcode,
accesses of 49, two counts of 4; a flag, the four bytes of a name, or the eight of a number.
"""

from __future__ import annotations

from typing import Any

import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler import Options
from systolic.compiler.bounds.run import operation_bounds, run_bound
from systolic.compiler.bounds.sequencing import (
    DRAIN_BYTES,
    LOAD_BYTES,
    MULTIPLY_BYTES,
    TRANSFER_BYTES,
    ArrayInstructions,
    of_transpose,
)
from systolic.hw.formulas.timing import Bound
from systolic.workload import Graph, GraphBuilder


def product(M: int, K: int, N: int, home: str = "state_buffer") -> Graph:
    """Return one product, its operands as the array takes them: K on partitions."""
    builder = GraphBuilder(home)
    x = builder.tensor("x", f"f32[{M},{K}]{{0,1}}")
    w = builder.tensor("w", f"f32[{K},{N}]")
    builder.matmul(x, w, f"f32[{M},{N}]")
    return builder.graph()


def turned(rows: int, cols: int, home: str = "state_buffer") -> Graph:
    """Return one transpose, from home to home."""
    builder = GraphBuilder(home)
    x = builder.tensor("x", f"f32[{rows},{cols}]")
    builder.transpose(x, f"f32[{cols},{rows}]", (1, 0))
    return builder.graph()


def bound_of(graph: Graph, options: Options | None = None, **tables: Any) -> tuple[Bound, int]:
    """Return the bound on a 4 x 4 chip, and the ticks of the run."""
    chip = ideal_chip(4, 4, **tables)
    bound = run_bound(graph, chip, options)
    assert max(b.bound.ticks for b in operation_bounds(graph, chip, options)) <= bound.ticks
    return bound, systolic.run(graph, chip, options=options).trace.ticks


def fetch(slots: int, bytes_per_cycle: int, latency: int) -> dict[str, int]:
    return {
        "buffer_instructions": slots,
        "bytes_per_cycle": bytes_per_cycle,
        "latency_cycles": latency,
    }


def test_the_least_bytes() -> None:
    access, counts = 1 + 4 + 3 * 8 + 4 + 2 * 8, 2 * 4
    assert (1 + access + counts, 1 + 2 * access + 1 + counts) == (LOAD_BYTES, MULTIPLY_BYTES)
    both = 1 + 2 * access + counts
    assert (both + 4, both + 8) == (DRAIN_BYTES, TRANSFER_BYTES)


def test_one_slot() -> None:
    """The load starts in 101, the fetch of the multiply begins in 102, the multiply in 203."""
    bound, taken = bound_of(product(1, 4, 1), fetch=fetch(1, 1000, 100))
    assert (bound.ticks, bound.why) == (203 + 1, "instruction fetch")
    assert bound.ticks <= taken < bound.ticks + 20


def test_the_path_carries_every_instruction() -> None:
    """With lhs stationary 4 tiles: 4 loads of 58 bytes and 4 multiplies of 108, a byte a cycle.

    An engine copies the results. If all is in DRAM, three copies bring and take it.
    """
    bound, taken = bound_of(product(4, 16, 8), fetch=fetch(8, 1, 0))
    assert (bound.ticks, bound.why) == (4 * (58 + 108) + 111 + 1, "instruction fetch")
    assert bound.ticks <= taken  # waits and posts take the path as well
    bound, taken = bound_of(product(4, 16, 8, "dram"), fetch=fetch(8, 1, 0))
    assert (bound.ticks, bound.why) == (4 * (58 + 108) + 111 + 3 * 115 + 1, "instruction fetch")
    assert bound.ticks <= taken


def test_the_results_of_a_product_fill_the_result_buffer_twice() -> None:
    """24 words of a lane, and 16 in the buffer: two instructions copy them, in three multiplies."""
    bound, taken = bound_of(
        product(24, 4, 4), Options(stationary="rhs"), fetch=fetch(8, 1, 0),
        result_buffer={"banks": 2, "bank_bytes": 32},
    )  # fmt: skip
    # With lhs stationary 6 tiles of 4 vectors each: 24 words too, but 6 loads and 6 multiplies.
    assert (bound.ticks, bound.why) == (58 + 3 * 108 + 2 * 111 + 1, "instruction fetch")
    assert bound.ticks <= taken


@pytest.mark.parametrize(("home", "copies"), [("state_buffer", 0), ("dram", 2)])
def test_the_path_carries_the_instructions_of_a_transpose(home: str, copies: int) -> None:
    """4 x 8: two tiles, each loaded and multiplied once; an engine copies eight words of a lane."""
    bound, taken = bound_of(turned(4, 8, home), Options(via="pe"), fetch=fetch(8, 1, 5))
    path = 2 * (58 + 108) + 111 + copies * 115
    assert (bound.ticks, bound.why) == (path + 5 + 1, "instruction fetch")
    assert bound.ticks <= taken


@pytest.mark.parametrize(("dispatch", "ticks"), [("overlapped", 351), ("serial", 401)])
def test_dispatch_of_a_transpose(dispatch: str, ticks: int) -> None:
    """8 x 8: four tiles, so four loads and four multiplies, 50 cycles between them or before."""
    array = {"dispatch_cycles": 50, "dispatch": dispatch}
    bound, taken = bound_of(turned(8, 8), Options(via="pe"), pe_array=array)
    assert (bound.ticks, bound.why) == (ticks, "dispatch of pe_array")
    assert bound.ticks <= taken < bound.ticks + 40


def test_tiles_that_others_could_replace_need_fewer_multiplies() -> None:
    """Banks of 4 words: 6 and 2 vectors take 2 + 1 multiplies, as 4 and 4 they take 1 + 1."""
    chip = ideal_chip(6, 4, result_buffer={"banks": 2, "bank_bytes": 16})
    tiles = [(6, 4), (2, 4)]
    assert of_transpose(chip, tiles, whole=True) == ArrayInstructions(2, 3, 1)
    assert of_transpose(chip, tiles, whole=False) == ArrayInstructions(2, 2, 1)


def test_what_is_done_is_done_behind_the_first_fetch() -> None:
    """All 64 slots are filled long before they are needed: only the first fetch shows."""
    free, taken_free = bound_of(product(64, 4, 4))
    bound, taken = bound_of(product(64, 4, 4), fetch=fetch(64, 1000, 30))
    assert (bound.ticks, bound.why) == (free.ticks + 31, free.why)
    assert taken == taken_free + 31


@pytest.mark.parametrize(("dispatch", "ticks"), [("overlapped", 151), ("serial", 201)])
def test_dispatch(dispatch: str, ticks: int) -> None:
    """Two loads and two multiplies with 50 cycles between them, or before each."""
    array = {"dispatch_cycles": 50, "dispatch": dispatch}
    bound, taken = bound_of(product(4, 8, 4), pe_array=array)
    assert (bound.ticks, bound.why) == (ticks, "dispatch of pe_array")
    assert bound.ticks <= taken < bound.ticks + 30


def test_intervals() -> None:
    """Three multiplies: two intervals, and the cycle of the last."""
    bound, taken = bound_of(product(4, 12, 4), pe_array={"min_interval_cycles": 100})
    assert (bound.ticks, bound.why) == (201, "multiplies of pe_array")
    assert bound.ticks <= taken < bound.ticks + 20


def test_clocks() -> None:
    """Fetch has the first clock, 4 ticks to a cycle; all clocks meet every 4 ticks.

    The load is fetched in 1 + 5 cycles, the multiply in the 7 behind its start: 6 + 7 = 13 cycles.
    """
    clocks = {"core": 250, "own": 1000}
    units = {unit: {"clock": "own"} for unit in ("pe_array", "activation", "pooling", "dma")}
    free, _ = bound_of(product(64, 4, 4), clock={"core": 1000, "own": 1000}, **units)
    bound, taken = bound_of(product(64, 4, 4), clock=clocks, fetch=fetch(8, 200, 5), **units)
    assert bound.ticks == free.ticks + 6 * 4
    assert bound.ticks <= taken
    # With an edge of all clocks in every tenth tick, 2 ticks to the first: 6 are none, 12 are 10.
    units["pooling"] = {"clock": "other"}
    clocks_apart = {"core": 1000, "own": 1000, "other": 400}
    free, _ = bound_of(product(64, 4, 4), clock=clocks_apart, **units)
    for latency, late in ((2, 0), (5, 10)):
        bound, taken = bound_of(
            product(64, 4, 4), clock=clocks_apart, fetch=fetch(8, 200, latency), **units
        )
        assert bound.ticks == free.ticks + late
        assert bound.ticks <= taken
    units["pooling"] = {"clock": "own"}
    bound, taken = bound_of(product(1, 4, 1), clock=clocks, fetch=fetch(1, 200, 5), **units)
    assert (bound.ticks, bound.why) == (13 * 4 + 1, "instruction fetch")
    assert bound.ticks <= taken
