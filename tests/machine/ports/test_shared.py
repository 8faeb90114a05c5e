"""Which accesses meet at a port that look as if they could pass each other?

By hand, for both engines: weights and vectors of different row groups in one bank, and sums of the
array that pass over the access of a slower clock.
"""

from __future__ import annotations

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.hw.units import CLIENTS
from systolic.isa import Copy, LoadWeights, MatMul, Memset, Program
from systolic.machine import simulate
from systolic.trace.records import Stall
from systolic.trace.words import KINDS

OWN = 16384
"""A byte in bank 2, which no other instruction uses."""


def run(chip, *instructions):
    """Return the trace of both engines, which must be one."""
    program = Program("ports", instructions)
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    return event.trace


def spans(trace):
    return [(t.first, t.last) for t in trace.times]


def first_in(*clients):
    """Return the clients with these before all others."""
    return (*clients, *(client for client in CLIENTS if client not in clients))


@pytest.mark.parametrize(("weights_at", "moving_at"), [(4, 0), (0, 4)])
def test_weights_and_vectors_of_different_row_groups_meet_in_their_bank(weights_at, moving_at):
    """Rows 0 to 3 are fed by partitions 0 to 3 and 4 to 7; the bank's port serves all of them."""
    chip = ideal_chip(4, 4, state_buffer={"partitions": 8}, port_priority=first_in("moving"))
    trace = run(
        chip,
        LoadWeights(weights=state(weights_at, 4, OWN, 4)),
        MatMul(moving=state(moving_at, 4, 64, 6), result=psum(0, 4, 0, 6)),
        LoadWeights(weights=state(weights_at, 4, 0, 4)),
    )
    # vectors in cycles 4 to 9; the load may start in 4, and has the port only from 10 on
    assert spans(trace) == [(0, 3), (4, 9), (10, 13)]
    assert trace.stalls == (Stall(4, "pe_array", 2, 6, "state_buffer", 0, "read", "moving"),)
    assert trace.port_cycles["state_buffer", 0, "read"] == 6 + 4


def test_weights_before_vectors_hold_up_another_row_group_too():
    chip = ideal_chip(
        4, 4, state_buffer={"partitions": 8}, port_priority=first_in("weights", "moving")
    )
    trace = run(
        chip,
        LoadWeights(weights=state(4, 4, OWN, 4)),
        MatMul(moving=state(0, 4, 64, 3), result=psum(0, 4, 0, 3)),
        LoadWeights(weights=state(4, 4, 0, 4)),
    )
    # the vector of cycle 4 lets the load start, which asks last there and comes first from 5 on
    assert spans(trace) == [(0, 3), (4, 10), (5, 8)]
    assert trace.stalls == (
        Stall(4, "pe_array", 2, 1, "state_buffer", 0, "read", "moving"),
        Stall(5, "pe_array", 1, 4, "state_buffer", 0, "read", "weights"),
    )


def slow_chip(fast_load=1):
    """Return a 4 x 4 chip whose activation engine has a cycle of four ticks, beginning at 0."""
    return ideal_chip(
        4,
        4,
        clock={"core": 1000, "slow": 250},
        activation={"clock": "slow"},
        pe_array={"fast_load": fast_load},
        port_priority=first_in("activation", "moving", "weights", "pooling"),
    )


def over_a_slow_write(third):
    """Return instructions: a slow write in ticks 4 to 7, a load, sums of one vector, a third."""
    return (
        Memset(engine="activation", target=psum(0, 4, 64, 1), value=1),
        LoadWeights(weights=state(0, 4, 0, 4)),
        MatMul(moving=state(0, 4, 8192, 1), result=psum(0, 4, 0, 1)),
        third,
    )


def test_sums_pass_over_a_slow_access_and_are_what_a_third_client_waits_for():
    third = Memset(engine="pooling", target=psum(0, 4, 128, 8), value=2)
    trace = run(slow_chip(), *over_a_slow_write(third))
    # injected in 4, sums in 7 to 10; the third writes in 1, 2, 3, is refused by the slow write in
    # 4, 5 and 6, by the sums from 7 on, and goes on in 11
    assert trace.times[0].done == 4
    assert trace.times[2].done == 10
    assert trace.times[3].done == 15
    assert [stall for stall in trace.stalls if stall.unit == "pooling"] == [
        Stall(4, "pooling", 3, 3, "result_buffer", 0, "write", "activation"),
        Stall(7, "pooling", 3, 4, "result_buffer", 0, "write", "moving"),
    ]
    # 4 to 7 and 7 to 10 share a tick, which counts once
    assert trace.port_cycles["result_buffer", 0, "write"] == 7 + 8


def test_sums_that_begin_early_leave_the_slow_access_its_first_tick():
    third = Memset(engine="pooling", target=psum(0, 4, 128, 8), value=2)
    trace = run(slow_chip(fast_load=2), *over_a_slow_write(third))
    # loaded in 0 and 1, injected in 2, sums in 5 to 8; the slow write is over by then
    assert trace.times[2].done == 8
    assert [stall for stall in trace.stalls if stall.unit == "pooling"] == [
        Stall(4, "pooling", 3, 1, "result_buffer", 0, "write", "activation"),
        Stall(5, "pooling", 3, 4, "result_buffer", 0, "write", "moving"),
    ]
    assert trace.port_cycles["result_buffer", 0, "write"] == 5 + 8


def test_sums_that_outlast_a_slow_access_by_part_of_their_cycle():
    """Cycles of 2 ticks (array), 3 (activation), 1 (pooling): a write in 6 to 8, a sum in 8, 9."""
    chip = ideal_chip(
        4,
        4,
        clock={"core": 300, "slow": 200, "fast": 600},
        activation={"clock": "slow"},
        pooling={"clock": "fast"},
        port_priority=first_in("activation", "moving", "weights", "pooling"),
    )
    trace = run(
        chip,
        Memset(engine="activation", target=psum(0, 4, 64, 2), value=1),
        LoadWeights(weights=state(0, 4, 0, 1)),
        MatMul(moving=state(0, 4, 8192, 1), result=psum(0, 1, 0, 1)),
        Memset(engine="pooling", target=psum(0, 4, 128, 8), value=2),
    )
    # read in array cycle 0, injected in 1, summed in 4; slow writes in ticks 3 to 5 and 6 to 8
    assert [(t.first, t.done) for t in trace.times] == [(0, 6), (0, 0), (2, 8), (0, 15)]
    assert [stall for stall in trace.stalls if stall.unit == "pooling"] == [
        Stall(3, "pooling", 3, 5, "result_buffer", 0, "write", "activation"),
        Stall(8, "pooling", 3, 2, "result_buffer", 0, "write", "moving"),
    ]
    assert trace.port_cycles["result_buffer", 0, "write"] == 7 + 8


def test_accumulating_sums_pass_over_a_slow_read():
    copy = Copy(engine="activation", source=psum(0, 4, 64, 2), target=state(0, 4, OWN, 2))
    third = Copy(engine="pooling", source=psum(0, 4, 128, 12), target=state(0, 4, 3 * 8192, 12))
    trace = run(
        slow_chip(),
        copy,
        LoadWeights(weights=state(0, 4, 0, 4)),
        MatMul(moving=state(0, 4, 8192, 2), result=psum(0, 4, 0, 2), accumulate=True),
        third,
    )
    # slow reads in 0 to 3 and 4 to 7; sums in 7 to 11
    assert [stall for stall in trace.stalls if stall.unit == "pooling"] == [
        Stall(0, "pooling", 3, 7, "result_buffer", 0, "read", "activation"),
        Stall(7, "pooling", 3, 5, "result_buffer", 0, "read", "moving"),
    ]
    assert trace.port_cycles["result_buffer", 0, "read"] == 12 + 12
