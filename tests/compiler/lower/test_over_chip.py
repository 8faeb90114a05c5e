"""Is the value right? Moves from DRAM to DRAM over places on the chip, in chunks there and back.

numpy is the oracle of values. `support.packed.run` has both engines leave the same trace and the
same memory, in memories full of other bits, and the program checker look at every dependency.
"""

from __future__ import annotations

from random import Random

import pytest

import systolic
from compiler.lower.test_digit_moves import transposed_or_joined
from compiler.lower.test_relays import moved
from support.chips import ideal_chip
from support.packed import run
from support.tiers import quick_first
from systolic.compiler import CompiledGraph, compile_graph
from systolic.compiler.lower import moves, relays
from systolic.hw.spec import Chip
from systolic.isa import Copy, DmaCopy, MatMul
from systolic.workload import Graph, GraphBuilder

LANES = {"independent_lanes": True}


def small_chip(rng: Random) -> Chip:
    """A chip on which one engine or both have independent lanes, with ports of either scope."""
    return ideal_chip(
        8, 8,
        state_buffer={
            "partitions": 16, "banks": 8, "port_scope": rng.choice(["bank", "partition"])
        },
        result_buffer={"banks": 2, "bank_bytes": 64},
        activation=LANES, pooling=LANES if rng.random() < 0.5 else {},
        dma={"queues": rng.choice([1, 4])},
    )  # fmt: skip


def drawn(rng: Random) -> Graph:
    """Return a move in DRAM of two to four dimensions; only the source may have tiles."""
    rank, dtype = rng.randint(2, 4), rng.choice(["f32", "bf16", "s8", "u8", "s32"])
    dims = [rng.choice([2, 3, 4, 6, 8]) for _ in range(rank)]
    builder = GraphBuilder(home="dram")
    tiled = rng.random() < 0.5, False
    transposed_or_joined(rng, builder, dtype, dims, tiled, transposes=0.7)
    return builder.graph()


def over_chip(compiled: CompiledGraph) -> bool:
    return any("over the chip" in choice for choice in compiled.layers.choices)


@pytest.fixture
def _whatever_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    cheapest = moves.cheapest_over_chip
    monkeypatch.setattr(
        moves,
        "cheapest_over_chip",
        lambda builder, names, axes, _: cheapest(builder, names, axes, 1e18),
    )
    monkeypatch.setattr(relays, "ROUGHLY", 1e9)


@pytest.mark.usefixtures("_whatever_others_take")
@pytest.mark.parametrize("seed", quick_first(range(60), 15))
def test_all_elements_arrive_on_both_engines(seed: int) -> None:
    rng = Random(seed)
    graph = drawn(rng)
    _, inputs, outputs = run(graph, small_chip(rng), seed)
    assert outputs["y"].tobytes() == moved(graph, inputs["x"]).tobytes()  # also those of a NaN


@pytest.mark.slow
@pytest.mark.usefixtures("_whatever_others_take")
def test_some_of_these_moves_go_over_the_chip() -> None:
    rngs = [Random(seed) for seed in range(60)]
    compiled = [compile_graph("moved", drawn(rng), small_chip(rng)) for rng in rngs]
    assert sum(map(over_chip, compiled)) >= 20


def test_engines_turn_bytes_at_twice_the_rate_of_the_array() -> None:
    """The array takes 6,144 cycles for 128 of them in a cycle, and 11,123 with copies.

    Two engines make 256 in a cycle: of the first leg words of four bytes, 768 cycles in 96 lanes.
    """
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[768,1024]{1,0:T(8,128)(4,1)}")
    builder.transpose("x", "s8[1024,768]", (1, 0), name="y")
    result = systolic.run(builder.graph(), "ideal_128x128", values=False)
    assert over_chip(result.compiled)
    assert result.program.count().keys() == {"Copy", "DmaCopy"}
    copies = [i for i in result.program.instructions if isinstance(i, DmaCopy)]
    assert {(i.source.pattern, i.target.pattern) for i in copies} == {
        (((1, 24 * 8192),), ((1, 8192),)), (((1, 6144),), ((1, 32 * 6144),))
    }  # fmt: skip
    assert result.cycles == 6149


def test_what_tiles_fill_with_padding_is_stored_from_tiles() -> None:
    """Nothing may be stored that nothing has written."""
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[768,1000]")
    builder.transpose("x", "s8[1000,768]{1,0:T(8,128)(4,1)}", (1, 0), name="y")
    padded = systolic.run(builder.graph(), "ideal_128x128", values=False)
    assert 1000 % 8 == 0
    assert over_chip(padded.compiled)
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "s8[768,1000]")
    builder.transpose("x", "s8[1000,768]{0,1:T(8,128)(4,1)}", (1, 0), name="y")
    padded = systolic.run(builder.graph(), "ideal_128x128", values=False)
    assert not over_chip(padded.compiled)


def test_the_array_still_turns_what_it_turns_sooner() -> None:
    builder = GraphBuilder(home="dram")
    builder.tensor("x", "f32[320,3072]{1,0:T(8,128)}")
    builder.transpose("x", "f32[3072,320]", (1, 0), name="y")
    result = systolic.run(builder.graph(), "ideal_128x128", values=False)
    assert any(isinstance(i, MatMul) for i in result.program.instructions)
    copies = [i for i in result.program.instructions if isinstance(i, Copy)]
    assert all(i.source.buffer is not i.target.buffer for i in copies)
