"""Where does a buffer end? Accesses that just fit and that reach one place too far, on every side.

By hand: buffers of a small chip, and the first and last byte each access names.
"""

from __future__ import annotations

import pytest

from support.blocks import state
from support.chips import ideal_chip
from systolic.errors import ProgramError
from systolic.isa import Access, Buffer, LoadWeights, Program, check_program
from systolic.isa.legality.accesses import (
    MAX_DRAM_ELEMENTS,
    MAX_ELEMENTS,
    MAX_STEP,
    check_access,
)

CHIP = ideal_chip(
    4,
    6,
    state_buffer={"partitions": 8, "bytes_per_partition": 4096, "banks": 4},
    result_buffer={"banks": 2, "bank_bytes": 256},
    dram={"size_bytes": 1000},
)


def is_legal(access):
    try:
        check_access("it", access, CHIP)
    except ProgramError:
        return False
    return True


def one(buffer, start, dtype="u8", step=1, count=1, partition=0, partitions=1):
    return Access(buffer, dtype, partition, partitions, start, ((step, count),))


STATE, RESULT, DRAM = Buffer.STATE, Buffer.RESULT, Buffer.DRAM


@pytest.mark.parametrize(
    ("fits", "does_not"),
    [
        # the last byte, and the one beyond it
        (one(STATE, 4095), one(STATE, 4096)),
        (one(STATE, 4092, "f32"), one(STATE, 4096, "f32")),
        (one(STATE, 0, count=4096), one(STATE, 0, count=4097)),
        (one(STATE, 4094, "bf16"), one(STATE, 4094, "bf16", count=2)),
        (one(STATE, 0, step=4095, count=2), one(STATE, 0, step=4096, count=2)),
        (one(DRAM, 999), one(DRAM, 1000)),
        (one(DRAM, 0, count=1000), one(DRAM, 1, count=1000)),
        (one(DRAM, 996, "f32"), one(DRAM, 1000, "f32")),
        (one(RESULT, 508, "f32"), one(RESULT, 512, "f32")),
        (one(RESULT, 0, "s32", count=128), one(RESULT, 0, "s32", count=129)),
        # the first byte, and the one before it
        (one(STATE, 7, step=-1, count=8), one(STATE, 7, step=-1, count=9)),
        (one(STATE, 28, "f32", step=-1, count=8), one(STATE, 24, "f32", step=-1, count=8)),
        (one(DRAM, 7, step=-1, count=8), one(DRAM, 6, step=-1, count=8)),
        (one(RESULT, 28, "f32", step=-1, count=8), one(RESULT, 24, "f32", step=-1, count=8)),
        (one(STATE, 0), one(STATE, -1)),
        # partitions: the last one, the first one
        (one(STATE, 0, partition=7), one(STATE, 0, partition=8)),
        (one(STATE, 0, partitions=8), one(STATE, 0, partitions=9)),
        (one(STATE, 0, partition=1, partitions=7), one(STATE, 0, partition=1, partitions=8)),
        (one(STATE, 0, partition=0), one(STATE, 0, partition=-1)),
        (one(STATE, 0, partition=0, partitions=2), one(STATE, 0, partition=-1, partitions=2)),
        (one(RESULT, 0, "f32", partitions=6), one(RESULT, 0, "f32", partitions=7)),
        (one(RESULT, 0, "f32", partition=5), one(RESULT, 0, "f32", partition=-1)),
        (one(DRAM, 0), one(DRAM, 0, partition=1)),
        (one(DRAM, 0), one(DRAM, 0, partition=-1)),
        (one(DRAM, 0), one(DRAM, 0, partitions=2)),
        # at least one of each
        (one(STATE, 0), one(STATE, 0, partitions=0)),
        (one(STATE, 0), one(STATE, 0, count=0)),
        # whole elements
        (one(STATE, 4, "f32"), one(STATE, 2, "f32")),
        (one(STATE, 2, "bf16"), one(STATE, 1, "bf16")),
        (one(RESULT, 4, "f32"), one(RESULT, 2, "f32")),
        # numbers without end
        (one(STATE, 0, step=0, count=MAX_ELEMENTS), one(STATE, 0, step=0, count=MAX_ELEMENTS + 1)),
        (
            one(DRAM, 0, step=0, count=MAX_DRAM_ELEMENTS),
            one(DRAM, 0, step=0, count=MAX_DRAM_ELEMENTS + 1),
        ),
        (one(STATE, 0, step=MAX_STEP), one(STATE, 0, step=MAX_STEP + 1)),
        (one(STATE, 0, step=-MAX_STEP), one(STATE, 0, step=-MAX_STEP - 1)),
    ],
)
def test_one_place_too_far(fits, does_not):
    assert is_legal(fits)
    assert not is_legal(does_not)


def test_pairs_reach_as_far_as_all_of_them_together():
    def two(first, second):
        return Access(STATE, "u8", 0, 1, 10, (first, second))

    assert is_legal(two((-5, 3), (1, 4086)))  # bytes 0 to 4095
    assert not is_legal(two((-5, 3), (1, 4087)))
    assert not is_legal(two((-5, 4), (1, 10)))


def test_pairs_from_one_to_four():
    assert is_legal(Access(STATE, "u8", 0, 1, 0, ((1, 1),) * 4))
    assert not is_legal(Access(STATE, "u8", 0, 1, 0, ((1, 1),) * 5))
    assert not is_legal(Access(STATE, "u8", 0, 1, 0, ()))


@pytest.mark.parametrize("path", ["left", "top"])
@pytest.mark.parametrize(
    ("start", "elements", "in_one_bank"),
    [
        (1024 - 16, 4, True),  # up to the last byte of bank 0
        (1024 - 12, 4, False),  # one element in bank 1
        (1024, 4, True),  # from the first byte of bank 1
        (1024 - 4, 2, False),
        (0, 1, True),
    ],
)
def test_a_row_on_the_top_path_lies_in_one_bank(path, start, elements, in_one_bank):
    parts = CHIP.model_dump()
    parts["pe_array"]["weight_path"] = path
    chip = type(CHIP).model_validate(parts)
    program = Program("row", (LoadWeights(weights=state(0, 4, start, elements)),))
    if in_one_bank or path == "left":
        check_program(program, chip)
    else:
        with pytest.raises(ProgramError, match="on the top path a row must lie in one bank"):
            check_program(program, chip)


def test_a_row_on_the_top_path_that_goes_backwards():
    parts = CHIP.model_dump()
    parts["pe_array"]["weight_path"] = "top"
    chip = type(CHIP).model_validate(parts)
    back = Access(STATE, "f32", 0, 4, 1024 + 8, ((-1, 3),))
    check_program(Program("row", (LoadWeights(weights=back),)), chip)
    back = Access(STATE, "f32", 0, 4, 1024 + 8, ((-1, 4),))
    with pytest.raises(ProgramError, match="one bank"):
        check_program(Program("row", (LoadWeights(weights=back),)), chip)
