"""How long units must be busy with a program: by hand, and never longer than the machine takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.blocks import block_program, state
from support.chips import ideal_chip
from support.command_line import run_command
from support.explained import lives, random_run, unshared, with_keys
from support.tiers import quick_first
from systolic.isa import Buffer, Copy, DmaCopy, LoadWeights, MatMul, Memset, Program
from systolic.run.busy import busy_bound, busy_cycles
from systolic.run.pins.file import PINS, read_pins
from systolic.shipped import CONFIGS

LAYER = CONFIGS / "programs" / "layer.txt"


@pytest.mark.parametrize("seed", quick_first(range(300), 20))
def test_no_unit_is_done_sooner_than_it_can_be(seed: int) -> None:
    run = random_run(seed)
    busy = busy_cycles(run.chip, run.program)
    assert set(busy) == set(run.program.queues())
    for queue, cycles in busy.items():
        assert 0 < cycles <= run.trace.cycles(queue), queue
    assert busy_bound(run.chip, busy).ticks <= run.trace.ticks


@pytest.mark.parametrize("seed", quick_first(range(200), 40))
def test_a_queue_alone_that_waits_for_nothing_is_not_done_sooner_either(seed: int) -> None:
    chip, program = unshared(seed)
    for queue, indices in program.queues().items():
        work = [replace(program.instructions[i], waits=(), posts=()) for i in indices]
        alone = Program("alone", tuple(work))
        busy = busy_cycles(chip, alone)
        assert list(busy) == [queue]
        assert busy[queue] <= lives(chip, alone).trace.cycles(queue)


def chip_with(**tables: object) -> object:
    return with_keys(ideal_chip(4, 4), **tables)


def array_work(vectors: int, *, times: int) -> Program:
    """Loads of 4 x 4 weights, each with a multiply of so many vectors behind it."""
    load, multiply = block_program(4, 4).instructions[:2]
    assert isinstance(load, LoadWeights)
    assert isinstance(multiply, MatMul)
    multiply = replace(
        multiply,
        moving=replace(multiply.moving, pattern=((1, vectors),)),
        result=replace(multiply.result, pattern=((1, vectors),)),
        waits=(),
        posts=(),
    )
    load = replace(load, waits=(), posts=())
    return Program("array", (load, multiply) * times)


def test_the_array_by_hand() -> None:
    """Loads take 4 cycles and hide behind vectors with two weight buffers, not with one."""
    double, single = chip_with(), chip_with(pe_array={"weight_buffer": "single"})
    for vectors, cycles in ((7, 3 * 7), (2, 3 * 4)):
        assert busy_cycles(double, array_work(vectors, times=3)) == {"pe_array": cycles}
    # With one buffer the next load begins in the cycle of the last vector, so 6 of 7 count.
    assert busy_cycles(single, array_work(7, times=3)) == {"pe_array": 3 * 4 + 3 * 6}
    slow = chip_with(pe_array={"cycles_per_vector": {"f32": 4}})
    assert busy_cycles(slow, array_work(7, times=2)) == {"pe_array": 2 * 7 * 4 - 3}


def test_engines_by_hand() -> None:
    """Lanes that are apart are busy side by side; without, one instruction follows the other."""
    fill = [Memset(engine="pooling", value=1.0, target=state(p, 1, 0, 5)) for p in (0, 1, 1)]
    apart = chip_with(pooling={"independent_lanes": True})
    together = chip_with(pooling={"independent_lanes": False})
    program = Program("fill", tuple(fill))
    assert busy_cycles(apart, program) == {"pooling": 2 * 5}
    assert busy_cycles(together, program) == {"pooling": 3 * 5}


def test_dma_by_hand() -> None:
    """12 floats are 48 bytes, in 5 cycles at 10 bytes a cycle; DRAM may be the slower."""
    source, target = state(0, 1, 0, 12), state(1, 1, 64, 12)
    inside = Program("move", (DmaCopy(dma_queue=1, source=source, target=target),) * 2)
    chip = chip_with(dma={"bytes_per_cycle": 10, "queues": 2})
    assert busy_cycles(chip, inside) == {"dma1": 2 * 5}
    slow = chip_with(dma={"bytes_per_cycle": 10, "queues": 2}, dram={"bytes_per_cycle": 4})
    outside = replace(target, buffer=Buffer.DRAM, partition=0)
    out = Program("out", (DmaCopy(dma_queue=0, source=source, target=outside),))
    assert busy_cycles(slow, out) == {"dma0": 12}


def test_the_bound_of_the_run_is_that_of_the_unit_which_is_busy_longest_in_time() -> None:
    chip = chip_with(
        clock={"core": 1000, "fast": 2000}, pooling={"clock": "fast", "independent_lanes": False}
    )
    fill = Memset(engine="pooling", value=1.0, target=state(0, 1, 0, 9))
    copy = Copy(engine="activation", source=state(0, 1, 0, 5), target=state(1, 1, 64, 5))
    busy = busy_cycles(chip, Program("two", (fill, copy)))
    assert busy == {"pooling": 9, "activation": 5}
    bound = busy_bound(chip, busy)  # 4.5 and 5 cycles of the array
    assert (bound.cycles, bound.why) == (5, "activation is busy that long")


def test_a_program_of_the_compiler_is_as_busy_as_its_pin_says(tmp_path: Path) -> None:
    program = tmp_path / "chain.bin"
    run_command("compile", CONFIGS / "runs" / "matmul_chain.toml", "--program", program)
    out = run_command("run", program, "--values", "none", "--no-plots", "--json",
                      "--out", tmp_path)[1]  # fmt: skip
    summary, pin = json.loads(out), read_pins(PINS)["matmul_chain"]
    assert summary["cycles"] == pin.cycles
    for unit in ("pe_array", "activation"):
        assert summary["busy"][unit] == pin.units[unit]["streaming"]
    streaming = pin.units["pe_array"]["streaming"]
    assert summary["bound"] == {"cycles": streaming, "why": "pe_array is busy that long"}


def test_the_table_says_how_far_the_run_is_from_it(tmp_path: Path) -> None:
    """6 vectors; 6 sums and, before them, a bias. The run takes 22 cycles."""
    out = run_command("run", LAYER, "--values", "none", "--no-plots", "--out", tmp_path)[1]
    text = " ".join(out.split())
    assert "busy at least pe_array 6 (27.3 %), activation 7 (31.8 %) inputs" in text
    assert "bound 7 cycles (activation is busy that long): the run is 15 (214.3 %) above it" in text


def test_a_program_of_no_instructions(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text('systolic program 1\nprogram "empty"\nchip "ideal_4x4"\n', encoding="utf-8")
    status, out, _ = run_command("run", empty, "--no-plots", "--out", tmp_path)
    assert status == 0
    assert "0 cycles (no instructions)" in out
