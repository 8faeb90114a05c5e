"""Is the register engine's array on time? Each rule of the timing model's section 2, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.isa import LoadWeights, MatMul, Memset, Program, Wait
from systolic.isa.instruction import Post
from systolic.machine import Image, simulate

MOVING = 8192
"""Moving vectors lie in bank 1, weights in bank 0: their ports never meet."""


def load(K, N, **keys):
    return LoadWeights(weights=state(0, K, 0, N), **keys)


def multiply(K, N, M, row=0, **keys):
    return MatMul(moving=state(0, K, MOVING, M), result=psum(0, N, row, M), **keys)


def schedule(chip, *instructions, semaphores=()):
    """Return (first, last) read or injection of every instruction."""
    program = Program("array", instructions, semaphores)
    trace = simulate(chip, program, engine="register").trace
    return [(t.first, t.last) for t in trace.times]


def array(rows=4, cols=4, **keys):
    return ideal_chip(rows, cols, pe_array=keys)


@pytest.mark.parametrize(
    ("buffer", "second_load"),
    [
        ("double", 4),  # l' >= e[0]
        ("single", 9),  # l' >= e[last]
        ("serial", 9 + 4 + 3),  # drained: R + C - 1 after e[last]
    ],
)
def test_a_load_waits_for_the_multiply_before_it(buffer, second_load):
    found = schedule(array(weight_buffer=buffer), load(4, 4), multiply(4, 4, 6), load(4, 4))
    assert found == [(0, 3), (4, 9), (second_load, second_load + 3)]


@pytest.mark.parametrize(("M", "period"), [(6, 6), (4, 4), (2, 4)])
def test_the_steady_period_of_double_buffers_is_the_longer_of_vectors_and_columns(M, period):
    pairs = [load(4, 4), multiply(4, 4, M)] * 5
    starts = [first for first, _ in schedule(array(), *pairs)[1::2]]
    assert starts == [4 + period * n for n in range(5)]


def test_a_serial_tile_from_the_top_costs_what_scale_sim_calls_a_fold():
    R, C, M = 4, 3, 5
    pairs = [load(R, C), multiply(R, C, M)] * 3
    chip = array(R, C, weight_path="top", weight_buffer="serial")
    starts = [first for first, _ in schedule(chip, *pairs)[::2]]
    fold = 2 * R + C + M - 2
    assert starts == [0, fold, 2 * fold]


@pytest.mark.parametrize(
    ("path", "f", "K", "N", "reads"),
    [("left", 1, 3, 4, 4), ("left", 3, 3, 4, 2), ("top", 1, 3, 4, 3), ("top", 2, 3, 4, 2)],
)
def test_a_load_takes_as_many_reads_as_its_path_and_lanes_need(path, f, K, N, reads):
    found = schedule(array(weight_path=path, fast_load=f), load(K, N), multiply(K, N, 1))
    assert found == [(0, reads - 1), (reads, reads)]


def test_weights_are_reused_and_vectors_take_their_cycles():
    chip = array(cycles_per_vector={"f32": 4})
    found = schedule(chip, load(4, 4), multiply(4, 4, 3), multiply(4, 4, 2), load(4, 4))
    # e[m] = 4 + 4 m; the next multiply at e[last] + v = 16; its first vector frees the shadow
    assert found == [(0, 3), (4, 12), (16, 20), (16, 19)]


def test_a_load_follows_a_load_after_its_last_read():
    found = schedule(array(), load(4, 3), load(4, 2), multiply(4, 2, 1), load(4, 1), load(4, 1))
    assert found == [(0, 2), (3, 4), (5, 5), (5, 5), (6, 6)]


def test_a_waiting_multiply_holds_the_loads_behind_it():
    waits = (Wait(0, 1),)
    found = schedule(
        array(),
        load(4, 4, posts=(Post(0),)),
        multiply(4, 4, 2, waits=waits),
        load(4, 4),
        semaphores=("loaded",),
    )
    # the post of cycle 3 is visible in cycle 4
    assert found == [(0, 3), (4, 5), (4, 7)]


SHAPES = [
    {},
    {"entry_cycles": 3},
    {"hop": (2, 1)},
    {"hop": (1, 3)},
    {"cell": (2, 1)},
    {"cell": (1, 2)},
    {"cell": (4, 3)},
    {"hop": (3, 2), "cell": (2, 2), "entry_cycles": 1},
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("latency", [0, 2])
def test_results_arrive_when_registers_between_say_so(shape, latency):
    R, C, K, N, M = 4, 6, 3, 5, 3
    chip = ideal_chip(R, C, pe_array=shape, result_buffer={"write_latency_cycles": latency})
    program = Program("array", (load(K, N), multiply(K, N, M)))
    trace = simulate(chip, program, engine="register", kinds=["psum_write"]).trace
    down, right = shape.get("hop", (1, 1))
    TR, TC = shape.get("cell", (1, 1))
    D = shape.get("entry_cycles", 0) + down * (R // TR) - 1 + latency
    rows = trace.words.rows
    found = {(int(r["partition"]), int(r["address"])): int(r["tick"]) for r in rows}
    assert found == {(c, m): N + m + D + right * (c // TC) for c in range(N) for m in range(M)}
    assert trace.times[1].done == N + M - 1 + D + right * ((N - 1) // TC)
    assert trace.cycles() == trace.times[1].done + 1


@pytest.mark.parametrize("shape", SHAPES)
def test_serial_buffers_wait_until_the_last_vector_has_left(shape):
    R, C = 4, 6
    chip = ideal_chip(R, C, pe_array={**shape, "weight_buffer": "serial"})
    down, right = shape.get("hop", (1, 1))
    TR, TC = shape.get("cell", (1, 1))
    drained = shape.get("entry_cycles", 0) + down * (R // TR) + right * ((C - 1) // TC)
    found = schedule(chip, load(4, 2), multiply(4, 2, 3), load(4, 2))
    assert found == [(0, 1), (2, 4), (4 + drained, 5 + drained)]


def test_serial_dispatch_is_charged_before_every_start():
    chip = array(dispatch_cycles=2, dispatch="serial")
    found = schedule(chip, load(4, 4), multiply(4, 4, 6), load(4, 4))
    # each may start when its bound is met (0, 6, 8) and starts two cycles later
    assert found == [(2, 5), (8, 13), (10, 13)]


def test_rows_and_partitions_are_posted_as_they_are_completed():
    posts = (Post(0, "row"), Post(1, "partition"), Post(2))
    program = Program("array", (load(4, 3), multiply(4, 3, 2, posts=posts)), ("r", "p", "d"))
    trace = simulate(array(), program, engine="register").trace
    events = [(e.tick, e.semaphore, e.value) for e in trace.semaphores]
    # e = 3, 4; D = 3; vector m reaches column c in cycle 6 + m + c
    assert events == [(7, 1, 1), (8, 0, 1), (8, 1, 2), (9, 0, 2), (9, 1, 3), (9, 2, 1)]


def test_a_cell_completes_its_partitions_together():
    posts = (Post(0, "partition"),)
    program = Program("array", (load(4, 3), multiply(4, 3, 2, posts=posts)), ("p",))
    trace = simulate(array(cell=(1, 2)), program, engine="register").trace
    assert [(e.tick, e.value) for e in trace.semaphores] == [(7, 1), (7, 2), (8, 3)]


def test_operands_may_lie_in_partitions_a_multiple_of_the_rows_away():
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    chip = ideal_chip(4, 3, state_buffer={"partitions": 8})
    weights, moving = state(4, 4, 0, 3), state(4, 4, MOVING, 4)
    program = Program(
        "array",
        (LoadWeights(weights=weights), MatMul(moving=moving, result=psum(0, 3, 0, 4))),
    )
    images = [Image(weights, values), Image(moving, np.eye(4, dtype=np.float32))]
    outcome = simulate(chip, program, images, engine="register", kinds=["load", "inject"])
    assert np.array_equal(outcome.memory.read(psum(0, 3, 0, 4)), values.T)
    assert set(outcome.trace.words.rows["partition"].tolist()) == {4, 5, 6, 7}


def test_an_array_that_waits_lets_an_exchange_go_on():
    """Its first multiply ends 9 cycles before the exchange is in the last of four columns.

    Then the array waits for a fill; the next multiply wants the weights of all columns.
    """
    weights = np.float32([[2, 3, 5, 7], [11, 13, 17, 19]])
    images = [
        Image(state(0, 2, 0, 4), weights),
        Image(state(0, 2, MOVING, 1), np.ones((2, 1), np.float32)),
    ]
    fill = Memset(
        engine="pooling", target=state(0, 4, 40960, 40), value=0, waits=(Wait(0, 1),),
        posts=(Post(1),),
    )  # fmt: skip
    program = Program("wait", (
        load(2, 4), multiply(2, 1, 1, posts=(Post(0),)), fill,
        multiply(2, 4, 1, row=8, waits=(Wait(1, 1),)),
    ), ("first", "filled"))  # fmt: skip
    memory = simulate(array(hop=(1, 3)), program, images, engine="register").memory
    assert memory.read(psum(0, 4, 8, 1)).ravel().tolist() == [13, 16, 22, 26]
