"""Whole runs of the register engine: clocks, labels, deadlock, agreement with hand-made totals."""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import block_images, block_program, psum, state
from support.chips import ideal_chip
from systolic.errors import SimulationError
from systolic.isa import Copy, LoadWeights, MatMul, Memset, Program, Wait
from systolic.isa.instruction import Post
from systolic.machine import simulate
from systolic.trace.labels import tally
from systolic.trace.records import Stall


@pytest.mark.parametrize("K", [4, 7])
@pytest.mark.parametrize("N", [3, 8])
@pytest.mark.parametrize("latency", [1, 3])
@pytest.mark.parametrize("drain", ["block", "row", "partition"])
@pytest.mark.parametrize("independent", [True, False])
def test_the_closed_totals(K, N, latency, drain, independent):
    R, C = 8, 8
    engine = {"independent_lanes": independent, "latency_cycles": latency}
    chip = ideal_chip(R, C, pooling=engine)
    total = N + K + (R - 1) + (N - 1) + latency
    total += {"block": K, "row": 1, "partition": K if independent else 0}[drain]
    if drain == "partition" and not independent:
        total = N + K + (R - 1) + N * K + latency
    values = np.arange(K * N, dtype=np.float32).reshape(K, N)
    program = block_program(K, N, drain, engine="pooling")
    outcome = simulate(chip, program, block_images(values), engine="register")
    assert outcome.trace.cycles() == total


def test_labels_sum_to_the_run_on_every_unit():
    chip = ideal_chip(4, 4, dma={"queues": 2})
    trace = simulate(chip, block_program(4, 4, "row"), engine="register").trace
    assert set(trace.labels) == {"pe_array", "activation", "pooling", "dma0", "dma1"}
    for unit, runs in trace.labels.items():
        assert sum(tally(runs, trace.cycles(), unit).values()) == trace.cycles()


def test_a_head_waits_for_its_own_unit_or_for_a_semaphore():
    chip = ideal_chip(2, 2, activation={"independent_lanes": False, "min_interval_cycles": 6})
    memset = Memset(engine="activation", target=state(0, 2, 0, 1), value=0)
    late = Memset(
        engine="activation", target=state(0, 2, 64, 1), value=0, waits=(Wait(0, 1), Wait(1, 1))
    )
    slow = Memset(engine="pooling", target=state(0, 2, 8192, 9), value=0, posts=(Post(0),))
    load = LoadWeights(weights=state(0, 2, 16384, 2), waits=(Wait(0, 1),), posts=(Post(1),))
    program = Program("labels", (memset, memset, late, slow, load), ("set", "loaded"))
    trace = simulate(chip, program, engine="register").trace
    runs = [(run.first, run.stop, run.label) for run in trace.labels["activation"]]
    # the pooling engine writes last in cycle 9; the load reads in 10 and 11
    assert runs == [
        (0, 1, "streaming"),
        (1, 2, "draining"),
        (2, 6, "waiting for issue"),
        (6, 7, "streaming"),
        (7, 8, "draining"),
        (8, 10, "waiting for pooling"),
        (10, 12, "waiting for pe_array"),
        (12, 13, "streaming"),
        (13, 14, "draining"),
    ]


def test_filling_and_draining_of_a_multiply():
    chip = ideal_chip(4, 2, pe_array={"cycles_per_vector": {"f32": 2}})
    load = LoadWeights(weights=state(0, 4, 0, 2))
    multiply = MatMul(moving=state(0, 4, 8192, 1), result=psum(0, 2, 0, 1))
    trace = simulate(chip, Program("labels", (load, multiply)), engine="register").trace
    assert [(run.first, run.stop, run.label) for run in trace.labels["pe_array"]] == [
        (0, 2, "loading"),
        (2, 4, "streaming"),  # one vector takes two cycles
        (4, 5, "filling"),
        (5, 7, "draining"),
    ]


def clocked(mhz, **tables):
    """Return a chip whose activation engine has a clock of its own."""
    return ideal_chip(
        4,
        4,
        clock={"core": 1000, "own": mhz},
        activation={"clock": "own", "independent_lanes": False},
        **tables,
    )


def fill(engine, elements, start, **keys):
    return Memset(engine=engine, target=state(0, 4, start, elements), value=1, **keys)


def test_a_slow_unit_acts_on_its_own_edges():
    # 1000 and 400 MHz: ticks of 2000 MHz; 2 ticks a core cycle, 5 an activation cycle
    trace = simulate(
        clocked(400),
        Program(
            "clocks",
            (
                fill("pooling", 2, 0, posts=(Post(0),)),
                fill("activation", 3, 8192, waits=(Wait(0, 1),)),
            ),
            ("done",),
        ),
        engine="register",
    ).trace
    assert (trace.periods["pe_array"], trace.periods["activation"]) == (2, 5)
    pooling, activation = trace.times
    # pooling is done in its cycle 2 (tick 4), seen from tick 6: the activation edge at 10
    assert (pooling.done, activation.start, activation.last, activation.done) == (4, 10, 20, 25)
    assert trace.ticks == 30
    assert trace.cycles() == 15
    assert [(r.first, r.stop) for r in trace.labels["activation"]] == [(0, 2), (2, 5), (5, 6)]


def test_an_access_that_has_begun_holds_its_port_for_its_whole_cycle():
    # activation: 4 ticks a cycle, pooling 1: it wins at tick 4, and pooling is back at tick 8
    trace = simulate(
        clocked(250),
        Program("clocks", (fill("activation", 1, 0), fill("pooling", 6, 64))),
        engine="register",
    ).trace
    # pooling generates in 0-5 and would write in 1-6: 1, 2, 3, then 8, 9, 10
    assert trace.stalls == (Stall(4, "pooling", 1, 4, "state_buffer", 0, "write", "activation"),)
    assert trace.times[1].done == 10
    assert trace.port_cycles == {("state_buffer", 0, "write"): 4 + 6}


def test_a_slow_unit_ends_with_its_cycle():
    trace = simulate(
        clocked(250),
        Program("clocks", (fill("activation", 1, 0),)),
        engine="register",
    ).trace
    assert (trace.times[0].first, trace.times[0].done, trace.ticks) == (0, 4, 8)


def test_the_run_lasts_until_the_last_cycle_of_the_slowest_has_ended():
    trace = simulate(
        clocked(250),
        Program("clocks", (fill("activation", 1, 0), fill("pooling", 5, 8192))),
        engine="register",
    ).trace
    # the activation engine writes in ticks 4 to 7, the pooling engine last in tick 5
    assert [t.done for t in trace.times] == [4, 5]
    assert trace.ticks == 8


def test_serial_dispatch_is_waiting_for_issue():
    chip = ideal_chip(4, 4, activation={"dispatch_cycles": 3, "dispatch": "serial"})
    program = Program("dispatch", (fill("activation", 1, 0),))
    trace = simulate(chip, program, engine="register").trace
    assert [(r.first, r.stop, r.label) for r in trace.labels["activation"]] == [
        (0, 3, "waiting for issue"),
        (3, 4, "streaming"),
        (4, 5, "draining"),
    ]


def test_deadlock_is_named():
    chip = ideal_chip(4, 4)
    program = Program(
        "stuck",
        (
            fill("activation", 2, 0, posts=(Post(0),)),
            fill("activation", 2, 64, waits=(Wait(1, 1),)),
            LoadWeights(weights=state(0, 4, 0, 4), waits=(Wait(0, 2),), posts=(Post(1),)),
        ),
        ("filled", "loaded"),
    )
    with pytest.raises(SimulationError) as error:
        simulate(chip, program, engine="register")
    text = str(error.value)
    assert text.startswith("stuck: deadlock in cycle ")
    assert (
        "pe_array: instruction 2 (LoadWeights) waits for semaphore 0 (filled) to reach 2, "
        "it is at 1, since cycle 0" in text
    )
    assert (
        "activation: instruction 1 (Memset) waits for semaphore 1 (loaded) to reach 1, "
        "it is at 0, since cycle 0" in text
    )


def test_an_empty_program_takes_no_time():
    trace = simulate(ideal_chip(2, 2), Program("empty", ()), engine="register").trace
    assert (trace.ticks, trace.times, trace.labels["pe_array"]) == (0, (), ())


def test_progress_is_reported():
    calls = []
    simulate(
        ideal_chip(4, 4),
        block_program(4, 4),
        engine="register",
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_the_grid_history_is_what_was_read_and_when():
    values = np.arange(16, dtype=np.float32).reshape(4, 4)
    trace = simulate(
        ideal_chip(4, 4), block_program(4, 4), block_images(values), engine="register", grid=True
    ).trace
    (load,), (multiply,) = trace.grid.loads, trace.grid.matmuls
    assert (load.instruction, load.reads.tolist()) == (0, [0, 1, 2, 3])
    assert np.array_equal(load.weights, values)
    assert (multiply.instruction, multiply.injections.tolist()) == (1, [4, 5, 6, 7])
    assert np.array_equal(multiply.moving, np.eye(4))
    assert (multiply.cols, multiply.exchange) == (4, True)


def test_a_copy_reads_what_the_array_wrote_a_cycle_before():
    values = np.arange(1, 5, dtype=np.float32).reshape(4, 1)
    chip = ideal_chip(4, 1)
    copies = [
        Copy(
            engine="activation",
            source=psum(0, 1, row, 1),
            target=state(0, 1, 16384 + 4 * row, 1),
            waits=(Wait(0, row + 1),),
        )
        for row in range(4)
    ]
    base = block_program(4, 1, "row")
    program = Program("rows", (*base.instructions[:2], *copies), base.semaphores)
    outcome = simulate(chip, program, block_images(values), engine="register")
    # row m is written in cycle 1 + m + 3 and copied in the next
    assert [t.first for t in outcome.trace.times[2:]] == [5, 6, 7, 8]
    assert outcome.memory.read(state(0, 1, 16384, 4)).tolist() == [[1, 2, 3, 4]]
