"""Which client gets a port, which is refused, and what is recorded of it? Section 5, by hand."""

from __future__ import annotations

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.hw.units import CLIENTS
from systolic.isa import Access, Buffer, Copy, DmaCopy, LoadWeights, MatMul, Memset, Program
from systolic.machine import simulate
from systolic.trace.labels import LabelInterval
from systolic.trace.records import Stall

OWN = 16384
"""A byte in bank 2, which no other instruction uses."""


def run(chip, *instructions):
    return simulate(chip, Program("ports", instructions), engine="register").trace


def spans(trace):
    return [(t.first, t.last) for t in trace.times]


def copy(engine, elements, start=0, lanes=(0, 4), target=OWN):
    first, count = lanes
    return Copy(
        engine=engine,
        source=state(first, count, start, elements),
        target=state(first, count, target, elements),
    )


@pytest.mark.parametrize(
    ("order", "first"), [(("activation", "pooling"), 0), (("pooling", "activation"), 1)]
)
def test_the_client_named_first_wins(order, first):
    others = tuple(client for client in CLIENTS if client not in order)
    chip = ideal_chip(4, 4, port_priority=(*order, *others))
    trace = run(chip, copy("activation", 3), copy("pooling", 3, target=2 * OWN))
    found = spans(trace)
    assert (found[first], found[1 - first]) == ((0, 2), (3, 5))
    loser = ("activation", "pooling")[1 - first]
    winner = ("activation", "pooling")[first]
    assert trace.stalls == (Stall(0, loser, 1 - first, 3, "state_buffer", 0, "read", winner),)
    assert trace.port_cycles["state_buffer", 0, "read"] == 6
    assert trace.labels[loser][0] == LabelInterval(0, 3, f"stalled by {winner}")


def test_different_banks_and_directions_do_not_meet():
    trace = run(
        ideal_chip(4, 4),
        copy("activation", 3, start=0, target=8192),
        copy("pooling", 3, start=8192, target=0),
    )
    assert spans(trace) == [(0, 2), (0, 2)]
    assert trace.stalls == ()


def test_an_element_across_two_banks_needs_both():
    # banks of 6 bytes: element 1 (bytes 4 to 7) lies in banks 0 and 1
    chip = ideal_chip(1, 1, state_buffer={"bytes_per_partition": 48, "banks": 8})
    trace = run(chip, Copy(engine="activation", source=state(0, 1, 4, 1), target=psum(0, 1, 0, 1)))
    assert {key for key in trace.port_cycles if key[0] == "state_buffer"} == {
        ("state_buffer", 0, "read"),
        ("state_buffer", 1, "read"),
    }


def test_a_group_of_elements_needs_the_banks_of_all_of_them():
    chip = ideal_chip(
        1,
        1,
        state_buffer={"bytes_per_partition": 64, "banks": 8},
        activation={"elements_per_cycle": 3},
    )
    # elements 1 to 3 lie in banks 0 (bytes 4-7) and 1 (8-15); pooling has bank 1 in cycle 0
    activation = Copy(engine="activation", source=state(0, 1, 4, 3), target=psum(0, 1, 0, 3))
    pooling = Copy(engine="pooling", source=state(0, 1, 8, 1), target=psum(0, 1, 512, 1))
    chip = chip.model_copy(
        update={"port_priority": ("pooling", "activation", "moving", "weights", "dma")}
    )
    trace = run(chip, activation, pooling)
    assert trace.stalls == (Stall(0, "activation", 0, 1, "state_buffer", 1, "read", "pooling"),)
    # while it is held back it takes no port: bank 0 was in use for one cycle only
    assert trace.port_cycles["state_buffer", 0, "read"] == 1


def test_reads_and_the_writes_that_follow_shift_together():
    chip = ideal_chip(
        4,
        4,
        activation={"latency_cycles": 2},
        port_priority=("pooling", "activation", "moving", "weights", "dma"),
    )
    trace = run(
        chip,
        copy("pooling", 2, start=8192, target=0),  # writes bank 0 in cycles 1 and 2
        copy("activation", 4, start=3 * 8192, target=16),
    )
    # the first write, due in cycle 2, is refused there; the read due with it waits as well
    assert trace.stalls == (Stall(2, "activation", 1, 1, "state_buffer", 0, "write", "pooling"),)
    assert (trace.times[1].first, trace.times[1].last, trace.times[1].done) == (0, 4, 6)


def test_within_an_engine_the_older_instruction_wins():
    chip = ideal_chip(4, 4, activation={"independent_lanes": False, "latency_cycles": 3})
    trace = run(
        chip,
        Memset(engine="activation", target=state(0, 4, 0, 3), value=1),
        Memset(engine="activation", target=state(0, 4, 64, 1), value=1),
    )
    # generated in 0-2 and 3, written in 3-5 and 6: no access waits
    assert [t.done for t in trace.times] == [5, 6]
    chip = ideal_chip(4, 4, activation={"latency_cycles": 3})
    trace = run(
        chip,
        Copy(engine="activation", source=state(0, 1, OWN, 3), target=state(0, 1, 0, 3)),
        Copy(engine="activation", source=state(1, 1, OWN, 1), target=state(0, 1, 64, 1)),
    )
    # disjoint lanes read together; both write partition 0: the younger in its due cycle 4 is late
    assert [t.done for t in trace.times] == [5, 6]
    assert trace.stalls == (Stall(4, "activation", 1, 2, "state_buffer", 0, "write", "activation"),)


def test_lanes_of_one_engine_share_a_port():
    trace = run(
        ideal_chip(4, 4),
        copy("activation", 4, lanes=(0, 2)),
        copy("activation", 4, start=64, lanes=(2, 2)),
    )
    assert spans(trace) == [(0, 3), (1, 4)]
    assert trace.stalls == ()
    assert trace.port_cycles["state_buffer", 0, "read"] == 5


def test_lanes_of_two_engines_do_not():
    trace = run(
        ideal_chip(4, 4),
        copy("activation", 2, lanes=(0, 2)),
        copy("pooling", 2, start=64, lanes=(2, 2), target=2 * OWN),
    )
    assert spans(trace) == [(0, 1), (2, 3)]


def load(**keys):
    return LoadWeights(weights=state(0, 4, 0, 4), **keys)


def multiply(M, start=8192, N=4, row=0, **keys):
    return MatMul(moving=state(0, 4, start, M), result=psum(0, N, row, M), **keys)


@pytest.mark.parametrize("moving_first", [True, False])
def test_a_load_asks_last_in_the_cycle_its_bound_is_met(moving_first):
    names = ("moving", "weights") if moving_first else ("weights", "moving")
    chip = ideal_chip(4, 4, port_priority=(*names, "activation", "pooling", "dma"))
    trace = run(chip, load(), multiply(3, start=64), load())
    if moving_first:
        # one bank for both: vectors in 4, 5, 6, and the load only then
        assert spans(trace) == [(0, 3), (4, 6), (7, 10)]
        assert trace.stalls == (Stall(4, "pe_array", 2, 3, "state_buffer", 0, "read", "moving"),)
    else:
        # the vector of cycle 4 is first with any priorities; from 5 on weights win
        assert spans(trace) == [(0, 3), (4, 10), (5, 8)]
        assert trace.stalls == (
            Stall(4, "pe_array", 2, 1, "state_buffer", 0, "read", "moving"),
            Stall(5, "pe_array", 1, 4, "state_buffer", 0, "read", "weights"),
        )
        runs = [(r.first, r.stop, r.label) for r in trace.labels["pe_array"]]
        assert runs[1:4] == [
            (4, 5, "streaming"),
            (5, 9, "stalled by weights"),
            (9, 11, "streaming"),
        ]


def test_a_load_that_asks_last_gives_way_to_everybody():
    chip = ideal_chip(4, 4, port_priority=("weights", *(c for c in CLIENTS if c != "weights")))
    dram = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 4),))
    dma = DmaCopy(dma_queue=0, source=state(0, 1, 128, 4), target=dram)
    chip = chip.model_copy(update={"dma": chip.dma.model_copy(update={"latency_cycles": 4})})
    trace = run(chip, load(), multiply(3), load(), dma)
    # 16 bytes in cycle 4, when the load's bound is met: it may not read beside the DMA
    assert spans(trace) == [(0, 3), (4, 6), (5, 8), (4, 4)]
    assert trace.stalls == (Stall(4, "pe_array", 2, 1, "state_buffer", 0, "read", "dma"),)


def test_the_oldest_of_two_refused_instructions_gives_the_label():
    # weights before moving; the DMA, before both, reads bank 1 in cycles 5 and 6, and the pooling
    # engine, first of all, bank 0
    order = ("pooling", "dma", "weights", "moving", "activation")
    chip = ideal_chip(4, 4, port_priority=order, dma={"latency_cycles": 5})
    dram = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 32),))
    dma = DmaCopy(dma_queue=0, source=state(0, 1, 8192, 32), target=dram)
    pooling = copy("pooling", 2, start=256, target=OWN)
    chip = chip.model_copy(update={"pooling": chip.pooling.model_copy(update={"fixed_cycles": 5})})
    trace = run(chip, load(), multiply(3), load(), dma, pooling)
    # the second load has read once, in cycle 4
    assert [s for s in trace.stalls if s.unit == "pe_array"] == [
        Stall(5, "pe_array", 1, 2, "state_buffer", 1, "read", "dma"),
        Stall(5, "pe_array", 2, 2, "state_buffer", 0, "read", "pooling"),
    ]
    assert trace.labels["pe_array"][2] == LabelInterval(5, 7, "stalled by dma")


def test_psum_accesses_of_the_array_are_never_refused():
    names = ("activation", *(c for c in CLIENTS if c != "activation"))
    chip = ideal_chip(4, 4, port_priority=names)
    memset = Memset(engine="activation", target=psum(0, 4, 64, 20), value=0)
    trace = run(chip, load(), multiply(2), memset)
    # e = 4, 5; D = 3: sums are written in cycles 7 to 11, when the activation engine waits
    assert trace.times[1].done == 11
    assert trace.stalls == (Stall(7, "activation", 2, 5, "result_buffer", 0, "write", "moving"),)
    assert trace.port_cycles["result_buffer", 0, "write"] == 5 + 20


def test_accumulating_holds_the_read_port_as_well():
    trace = run(
        ideal_chip(4, 4),
        load(),
        multiply(2, accumulate=True),
        Copy(engine="pooling", source=psum(0, 4, 100, 12), target=state(0, 4, OWN, 12)),
    )
    assert trace.stalls == (Stall(7, "pooling", 2, 5, "result_buffer", 0, "read", "moving"),)
    assert trace.port_cycles["result_buffer", 0, "read"] == 5 + 12


def test_vectors_of_several_cycles_leave_the_port_free_between_them():
    chip = ideal_chip(2, 1, pe_array={"cycles_per_vector": {"f32": 3}})
    weights = LoadWeights(weights=state(0, 2, 0, 1))
    moving = MatMul(moving=state(0, 2, 8192, 3), result=psum(0, 1, 0, 3))
    trace = run(chip, weights, moving)
    # N = 1: each vector holds its port for one cycle
    assert trace.port_cycles["result_buffer", 0, "write"] == 3
    assert trace.port_cycles["state_buffer", 1, "read"] == 3


def test_one_row_without_latency_asks_for_its_result_port():
    """D = 0: the injection itself writes partition 0."""
    names = ("activation", *(c for c in CLIENTS if c != "activation"))
    chip = ideal_chip(1, 2, port_priority=names)
    memset = Memset(engine="activation", target=psum(0, 2, 64, 4), value=0)
    weights = LoadWeights(weights=state(0, 1, 0, 2))
    moving = MatMul(moving=state(0, 1, 8192, 2), result=psum(0, 2, 0, 2))
    trace = run(chip, weights, moving, memset)
    # writes of the memset in 1 to 4; the first vector, due in 2, enters in 5 and holds 5 and 6
    assert spans(trace)[1] == (5, 6)
    assert trace.stalls == (Stall(2, "pe_array", 1, 3, "result_buffer", 0, "write", "activation"),)
    assert trace.times[1].done == 7


# -- several clocks: sums pass over the access of a slower clock ----------------------------------


@pytest.mark.parametrize("engine", ["event", "register"])
def test_after_the_sums_the_port_is_again_that_of_the_slow_access(engine):
    chip = ideal_chip(
        2, 2,
        clock={"core": 1000, "slow": 250},
        pe_array={"entry_cycles": 2},
        activation={"clock": "slow", "latency_cycles": 1},
        pooling={"latency_cycles": 1, "fixed_cycles": 4},
    )  # fmt: skip
    program = Program(
        "three clients",
        (
            LoadWeights(weights=state(0, 2, 0, 2)),
            MatMul(moving=state(0, 2, 8192, 1), result=psum(0, 2, 0, 1)),
            Memset(engine="activation", target=psum(0, 2, 64, 1), value=0),
            Memset(engine="pooling", target=psum(0, 2, 80, 2), value=0),
        ),
    )
    trace = simulate(chip, program, engine=engine).trace
    # The activation engine writes in ticks 4 to 7. The vector enters in 2, its sums (D = 3) are
    # written in 5 and 6. The pooling engine, held for 4 cycles, wants to write from 5 on.
    assert trace.stalls == (
        Stall(5, "pooling", 3, 2, "result_buffer", 0, "write", "moving"),
        Stall(7, "pooling", 3, 1, "result_buffer", 0, "write", "activation"),
    )
    assert [run.label for run in trace.labels["pooling"] if "stalled" in run.label] == [
        "stalled by moving", "stalled by activation",
    ]  # fmt: skip
    assert trace.port_cycles["result_buffer", 0, "write"] == 4 + 2


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("backwards", [False, True])
def test_of_several_ports_of_one_need_the_lowest_bank_is_named(engine, backwards):
    """Two elements of a step lie in banks 0 and 1, in either order; copies hold both banks."""
    chip = ideal_chip(
        2, 2, activation={"elements_per_cycle": 2}, dma={"queues": 2, "bytes_per_cycle": 4},
        port_priority=("dma", "moving", "weights", "activation", "pooling"),
    )  # fmt: skip
    step = -2048 if backwards else 2048
    source = Access(Buffer.STATE, "f32", 0, 1, 8192 if backwards else 0, ((step, 2),))
    both = Copy(engine="activation", source=source, target=state(0, 1, OWN, 2))
    copies = [
        DmaCopy(
            dma_queue=q, source=state(1, 1, 8192 * q + 64, 3),
            target=Access(Buffer.DRAM, "f32", 0, 1, 64 * q, ((1, 3),)),
        )
        for q in range(2)
    ]  # fmt: skip
    trace = simulate(chip, Program("banks", (both, *copies)), engine=engine).trace
    assert trace.stalls == (Stall(0, "activation", 0, 3, "state_buffer", 0, "read", "dma"),)


@pytest.mark.parametrize("engine", ["event", "register"])
def test_a_stalled_write_to_several_banks_names_the_lowest_too(engine):
    """The same for a target that goes backwards through the banks."""
    chip = ideal_chip(
        2, 2, pooling={"elements_per_cycle": 2}, dma={"queues": 2, "bytes_per_cycle": 4},
        port_priority=("dma", "moving", "weights", "activation", "pooling"),
    )  # fmt: skip
    target = Access(Buffer.STATE, "f32", 0, 1, 8192, ((-2048, 2),))
    fill = Memset(engine="pooling", target=target, value=1)
    copies = [
        DmaCopy(
            dma_queue=q, source=Access(Buffer.DRAM, "f32", 0, 1, 64 * q, ((1, 3),)),
            target=state(1, 1, 8192 * q + 64, 3),
        )
        for q in range(2)
    ]  # fmt: skip
    trace = simulate(chip, Program("banks", (fill, *copies)), engine=engine).trace
    assert trace.stalls == (Stall(1, "pooling", 0, 2, "state_buffer", 0, "write", "dma"),)
