"""Does a DMA queue read the result buffer where the chip lets it, and only by its ports?"""

from __future__ import annotations

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.errors import ProgramError
from systolic.isa import Access, Buffer, DmaCopy, LoadWeights, MatMul, Post, Program, Wait, lint
from systolic.isa.legality.program import check_program
from systolic.machine import Image, simulate
from systolic.trace.words import KINDS

OUT = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 12),))
NO_ORGANISATION = {"size_bytes": 1 << 20, "bytes_per_cycle": 64}
ORGANISATION = {
    "channels": 1, "banks": 2, "row_bytes": 1024, "burst_bytes": 64, "interleave_bytes": 64,
    "activate_cycles": 3, "precharge_cycles": 2,
}  # fmt: skip


def _chip(readable=True, **tables):
    return ideal_chip(
        4, 4, dma={"queues": 1, "bytes_per_cycle": 4}, result_buffer={"dma_readable": readable},
        **tables,
    )  # fmt: skip


def _program(target=OUT, **links):
    """Return a product of 3 vectors with a 4 x 4 tile, whose result a DMA queue takes."""
    return Program(
        "bypass",
        (
            LoadWeights(weights=state(0, 4, 0, 4)),
            MatMul(moving=state(0, 4, 64, 3), result=psum(0, 4, 0, 3), posts=(Post(0),)),
            DmaCopy(dma_queue=0, source=psum(0, 4, 0, 3), target=target, waits=(Wait(0, 1),)),
        ),
        ("made",),
    )


def _images():
    rng = np.random.default_rng(5)
    weights = rng.integers(-9, 9, (4, 4)).astype(np.float32)
    moving = rng.integers(-9, 9, (4, 3)).astype(np.float32)
    images = [Image(state(0, 4, 0, 4), weights), Image(state(0, 4, 64, 3), moving)]
    return images, weights.T @ moving


@pytest.mark.parametrize("engine", ["event", "register"])
def test_a_product_goes_from_the_result_buffer_to_dram(engine):
    """Loads in 0 to 3, vectors enter in 4 to 6; the last sum is written in 6 + 3 + 3 = 12.

    The copy starts in 13 and moves a word in each of 12 cycles.
    """
    images, expected = _images()
    run = simulate(_chip(), _program(), images, engine=engine)
    assert run.memory.read(OUT).reshape(4, 3).tolist() == expected.tolist()
    copy = next(t for t in run.trace.times if t.unit == "dma0")
    assert (copy.start, copy.first, copy.done) == (13, 13, 24)
    assert run.trace.port_cycles["result_buffer", 0, "read"] == 12


def test_sums_that_accumulate_in_its_bank_hold_it_back():
    """A second product accumulates onto other words of the bank: its reads are never refused."""
    first, second, copy = _program().instructions
    more = MatMul(moving=state(0, 4, 64, 3), result=psum(0, 4, 64, 3), accumulate=True)
    copy = DmaCopy(dma_queue=0, source=psum(0, 4, 128, 3), target=OUT)
    program = Program("held", (first, second, more, copy), ("made",))
    images, _ = _images()
    event = simulate(_chip(), program, images, kinds=KINDS)
    assert_same(event, simulate(_chip(), program, images, kinds=KINDS, engine="register"))
    # vectors of the second product enter in 7 to 9 and hold the read port from 10 to 15; the copy
    # has moved 10 of its 12 words before
    (stall,) = [s for s in event.trace.stalls if s.unit == "dma0"]
    assert (stall.tick, stall.cycles, stall.buffer, stall.winner) == (
        10, 6, "result_buffer", "moving",
    )  # fmt: skip
    assert [t.done for t in event.trace.times if t.unit == "dma0"] == [17]


def test_it_is_refused_where_the_chip_does_not_say_so():
    with pytest.raises(ProgramError) as caught:
        check_program(_program(), _chip(readable=False))
    assert str(caught.value).endswith(
        "source: DMA reads the result buffer only where result_buffer.dma_readable = true"
    )


def _organised(**keys):
    """Return a chip whose one queue moves 4 bytes in each of the 16 cycles of a burst."""
    return ideal_chip(
        4, 4, dma={"queues": 1, "bytes_per_cycle": 4} | keys,
        result_buffer={"dma_readable": True}, state_buffer={"port_bytes": 4},
        dram=NO_ORGANISATION | {"organisation": ORGANISATION},
    )  # fmt: skip


def test_a_product_goes_to_dram_burst_by_burst():
    """The copy starts in 13, opens a row, and writes the burst at 0 once for each partition."""
    images, expected = _images()
    event = simulate(_organised(), _program(), images, kinds=KINDS)
    assert_same(event, simulate(_organised(), _program(), images, kinds=KINDS, engine="register"))
    assert event.memory.read(OUT).reshape(4, 3).tolist() == expected.tolist()
    copy = next(t for t in event.trace.times if t.unit == "dma0")
    assert (copy.start, copy.first, copy.done) == (13, 16, 16 + 4 * 16 - 1)
    assert event.trace.port_cycles["result_buffer", 0, "read"] == 12


def test_sums_hold_bursts_back_too():
    """As above: sums hold the read port from 10 to 15; the first burst has moved in cycle 9."""
    first, second, copy = _program().instructions
    more = MatMul(moving=state(0, 4, 64, 3), result=psum(0, 4, 64, 3), accumulate=True)
    copy = DmaCopy(dma_queue=0, source=psum(0, 4, 128, 3), target=OUT)
    program = Program("held", (first, second, more, copy), ("made",))
    images, _ = _images()
    chip = _organised(latency_cycles=6)
    event = simulate(chip, program, images, kinds=KINDS)
    assert_same(event, simulate(chip, program, images, kinds=KINDS, engine="register"))
    (stall,) = [s for s in event.trace.stalls if s.unit == "dma0"]
    assert (stall.tick, stall.cycles, stall.buffer, stall.winner) == (
        10, 6, "result_buffer", "moving",
    )  # fmt: skip
    assert [t.done for t in event.trace.times if t.unit == "dma0"] == [9 + 4 * 16 + 6 - 1]


def test_queues_that_read_one_bank_take_turns():
    """Words of one bank, whatever their partitions; rows of two banks of DRAM, opened in 0-2.

    The bus has one burst at a time, so the queues meet where DRAM has two channels.
    """
    two = ORGANISATION | {"channels": 2}
    chip = ideal_chip(
        4, 4, dma={"queues": 2, "bytes_per_cycle": 4}, result_buffer={"dma_readable": True},
        dram=NO_ORGANISATION | {"organisation": two},
    )  # fmt: skip
    copies = [
        DmaCopy(dma_queue=q, source=psum(q, 1, 0, 16),
                target=Access(Buffer.DRAM, "f32", 0, 1, 64 * q, ((1, 16),)))
        for q in range(2)
    ]  # fmt: skip
    program = Program("turns", tuple(copies))
    event = simulate(chip, program, kinds=KINDS)
    assert_same(event, simulate(chip, program, kinds=KINDS, engine="register"))
    assert [t.done for t in event.trace.times] == [18, 34]
    (stall,) = event.trace.stalls
    assert (stall.unit, stall.tick, stall.cycles, stall.winner) == ("dma1", 3, 16, "dma")
    assert event.trace.port_cycles["result_buffer", 0, "read"] == 32


def test_nothing_is_written_to_it():
    copy = DmaCopy(dma_queue=0, source=OUT, target=psum(0, 4, 0, 3))
    with pytest.raises(ProgramError, match="target: must lie in the state buffer or in DRAM"):
        check_program(Program("into", (copy,)), _chip())


def test_the_checker_knows_that_the_copy_must_wait():
    inputs = [image.access for image in _images()[0]]
    assert lint(_program(), _chip(), inputs) == []
    load, multiply, copy = _program().instructions
    hasty = DmaCopy(dma_queue=0, source=copy.source, target=copy.target)
    found = lint(Program("hasty", (load, multiply, hasty), ("made",)), _chip(), inputs)
    assert any(diagnostic.code == "read-after-write" for diagnostic in found)
