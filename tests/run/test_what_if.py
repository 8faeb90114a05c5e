"""Is a "what if" what the changed chip takes? By hand, and against chips changed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from support.blocks import block_program, state
from support.chips import ideal_chip
from support.explained import with_keys
from systolic.compiler import compile_graph
from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, Post, Program, Wait
from systolic.machine import simulate
from systolic.machine.spared import Spared
from systolic.run.execute import run
from systolic.run.what_if import CHANGES, what_if
from systolic.shipped import CHIPS
from systolic.workload import GraphBuilder


def outlooks(chip: Chip, program: Program) -> dict[str, Any]:
    found = what_if(run(program, chip, check=False))
    return {each.change.what: each for each in found}


def cycles(chip: Chip, program: Program) -> int:
    return simulate(chip, program, values=False).trace.cycles()


def copy(engine: str, bank: int, elements: int = 3, **keys: Any) -> Copy:
    source, target = state(0, 4, 0, elements), state(0, 4, 8192 * bank, elements)
    return Copy(engine=engine, source=source, target=target, **keys)


def from_dram(queue: int, bank: int) -> DmaCopy:
    """Return a copy of 64 bytes."""
    outside = Access(Buffer.DRAM, "f32", 0, 1, 256 * queue, ((1, 16),))
    return DmaCopy(dma_queue=queue, source=outside, target=state(queue, 1, 8192 * bank, 16))


def test_the_transpose_by_hand():
    """19 cycles: a load of 4 before the vectors, and a copy of 4 elements per lane."""
    found = outlooks(ideal_chip(4, 4), block_program(4, 4))
    assert found["weights loaded for free"].cycles == 15
    assert found["engines twice as wide"].cycles == 17
    same = (
        "DMA latency 0",
        "no port conflicts",
        "semaphores 1 cycle",
        "instructions there at once",
    )
    assert all(found[name].cycles == 19 and found[name].already for name in same)
    assert "twice the PSUM banks" not in found, "there is nothing to compile again"


@pytest.mark.parametrize("weight_buffer", ["double", "single", "serial"])
@pytest.mark.parametrize("path", ["left", "top"])
def test_free_loads_leave_the_vectors(weight_buffer, path):
    """Three products of 4 vectors: 12 cycles of vectors, 6 until the last result is complete."""
    load, multiply, _ = block_program(4, 4).instructions
    array = {"weight_buffer": weight_buffer, "weight_path": path}
    program = Program("three", (load, multiply) * 3, ("result",))
    trace = simulate(
        ideal_chip(4, 4, pe_array=array), program, values=False, spared=Spared(loads=True)
    ).trace
    assert trace.cycles() == 12 + 6


def test_port_conflicts_by_hand():
    """Both engines read bank 0: one behind the other, or side by side in 4 cycles."""
    program = Program("two", (copy("activation", 1), copy("pooling", 2)))
    assert cycles(ideal_chip(4, 4), program) == 7
    assert outlooks(ideal_chip(4, 4), program)["no port conflicts"].cycles == 4


def test_semaphores_latency_and_bandwidth_against_chips_changed_by_hand():
    chip = ideal_chip(
        4, 4, semaphore_cycles=5, dma={"latency_cycles": 7, "bytes_per_cycle": 16},
        dram={"bytes_per_cycle": 4, "latency_cycles": 3},
    )  # fmt: skip
    chain = copy("activation", 1, posts=(Post(0),)), copy("pooling", 2, waits=(Wait(0, 1),))
    program = Program("both", (*chain, from_dram(0, 4), from_dram(1, 5)), ("a",))
    found = outlooks(chip, program)
    # 2 x 64 bytes at 4 per cycle behind 10 cycles of latency; at 16 per cycle and queue.
    assert cycles(chip, program) == 10 + 32
    assert found["DMA latency 0"].cycles == 32
    assert found["DRAM bandwidth unlimited"].cycles == 10 + 4
    alone = Program("chain", chain, ("a",))
    # Read in 0-2, written in 3, seen 5 later: read in 8-10, written in 11.
    assert cycles(chip, alone) == 12
    assert outlooks(chip, alone)["semaphores 1 cycle"].cycles == 8


def test_banks_and_rows_are_bandwidth():
    organisation = {
        "channels": 1, "banks": 2, "row_bytes": 64, "burst_bytes": 16, "interleave_bytes": 64,
        "activate_cycles": 9, "precharge_cycles": 9,
    }  # fmt: skip
    chip = ideal_chip(4, 4, dma={"bytes_per_cycle": 16}, dram={"bytes_per_cycle": 16})
    slow = with_keys(chip, dram={"organisation": organisation})
    program = Program("one", (from_dram(0, 0),))
    assert cycles(slow, program) > 4
    assert outlooks(slow, program)["DRAM bandwidth unlimited"].cycles == 4


def test_bursts_are_refused_no_port_either():
    """Two queues and an engine write one bank; the queues have a channel each."""
    organisation = {
        "channels": 2, "banks": 2, "row_bytes": 256, "burst_bytes": 16, "interleave_bytes": 256,
        "activate_cycles": 0, "precharge_cycles": 0,
    }  # fmt: skip
    chip = ideal_chip(4, 4, dma={"bytes_per_cycle": 8}, dram={"bytes_per_cycle": 16})
    chip = with_keys(chip, dram={"organisation": organisation})
    program = Program("three", (from_dram(0, 0), from_dram(1, 0), copy("activation", 0, 7)))
    assert cycles(chip, program) == 8 + 8 + 7
    assert simulate(chip, program, values=False).trace.stalls
    found = simulate(chip, program, values=False, spared=Spared(ports=True)).trace
    assert (found.cycles(), found.stalls) == (8, ())


def test_engines_are_no_wider_than_ports_carry():
    """One float32 passes a port of 4 bytes, 4 of int8: the rate can go to 4, not to 8."""
    narrow = ideal_chip(
        4, 4, state_buffer={"port_bytes": 4}, activation={"elements_per_cycle": 4},
        pe_array={"cycles_per_vector": {"s8": 1}},
    )  # fmt: skip
    program = Program("one", (copy("activation", 1),))
    (wide,) = [each for each in CHANGES if each.what == "engines twice as wide"]
    found = outlooks(narrow, program)[wide.what]
    assert (found.cycles, found.already) == (cycles(narrow, program), False)


def test_another_program_for_twice_the_banks():
    chip = ideal_chip(4, 4, result_buffer={"banks": 1, "bank_bytes": 64})
    builder = GraphBuilder()
    left, right = builder.tensor("a", "f32[8,32]"), builder.tensor("b", "f32[32,64]")
    builder.matmul(left, right, "f32[8,64]", name="y")
    graph = builder.graph()
    result = run(graph, chip)
    (found,) = [e for e in what_if(result) if e.change.recompiles]
    more = with_keys(chip, result_buffer={"banks": 2})
    assert found.cycles == cycles(more, compile_graph("y", graph, more).program)
    assert found.program == "recompiled"
    assert found.cycles < result.cycles


def test_a_chip_that_says_where_its_values_come_from():
    """Its provenance speaks of keys that a change takes away, such as handoff_cycles.scalar."""
    chip = load_chip(CHIPS / "neuroncore_v2.toml")
    assert chip.provenance is not None
    source, target = state(0, 128, 0, 64), state(0, 128, 24576, 64)
    first = Copy(engine="scalar", source=source, target=target, posts=(Post(0),))
    then = Copy(engine="vector", source=target, target=source, waits=(Wait(0, 1),))
    found = outlooks(chip, Program("p", (first, then), ("made",)))
    quick = chip.model_copy(update={"semaphore_cycles": 1, "handoff_cycles": {}})
    program = Program("p", (first, then), ("made",))
    assert found["semaphores 1 cycle"].cycles == cycles(quick, program)
    assert found["DMA latency 0"].cycles == cycles(chip, program)
    assert found["instructions there at once"].already


def test_the_shortest_comes_first():
    found = what_if(run(block_program(4, 4), ideal_chip(4, 4), check=False))
    assert [each.cycles for each in found] == sorted(each.cycles for each in found)


def test_only_times_of_the_event_engine_can_be_spared():
    program = block_program(4, 4)
    for settings in ({"values": True}, {"values": False, "engine": "register"}):
        with pytest.raises(ValueError, match="only the event engine can be spared anything"):
            simulate(ideal_chip(4, 4), program, spared=Spared(ports=True), **settings)
