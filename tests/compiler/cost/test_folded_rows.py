"""When a product ends whose operands come in pieces: by hand."""

from __future__ import annotations

import pytest

from support.chips import ideal_chip
from systolic.compiler.cost.folded_rows import (
    NOTHING,
    Coming,
    end_of_product,
    in_pieces,
    least_cycles,
    run_cycles,
    there_and_done,
)
from systolic.layout import Shape

CHIP = ideal_chip(
    4, 4,
    dma={"queues": 2, "descriptor_cycles": 5, "bytes_per_cycle": 8, "latency_cycles": 10},
    dram={"size_bytes": 1 << 20, "bytes_per_cycle": 8},
)  # fmt: skip


def test_what_is_on_the_chip_needs_no_time() -> None:
    assert end_of_product(CHIP, (NOTHING, NOTHING), 100, 0) == 100


def test_a_product_begins_with_the_first_piece_and_ends_behind_the_last() -> None:
    """400 cycles of 2 queues in 4 pieces, each by one queue: the first is there at 100.

    All of it is there at 200, and the product of the last piece is a quarter of the work.
    """
    operand = Coming(400, 4, 1)
    assert end_of_product(CHIP, (operand, NOTHING), 80, 0) == 200 + 80 // 4
    assert end_of_product(CHIP, (operand, NOTHING), 400, 0) == 100 + 400


def test_what_is_turned_at_once_holds_the_product_up() -> None:
    """Two pieces, at 50 and 100, each 30 cycles to turn: the product begins at 130."""
    operand = Coming(200, 2, 2, 60, at_once=True)
    assert there_and_done(CHIP, operand) == (50 + 60, 100 + 30)
    assert end_of_product(CHIP, (operand, NOTHING), 1000, 0) == 130 + 1000


def test_operands_come_one_after_the_other() -> None:
    """The second one's first piece, 20 cycles of both queues, comes behind all of the first."""
    first, second = Coming(200, 1, 2, 10, at_once=True), Coming(80, 2, 2)
    assert end_of_product(CHIP, (first, second), 500, 0) == 100 + 20 + 500


def test_what_is_stored_ends_behind_what_comes() -> None:
    """A queue and DRAM move 8 bytes in a cycle; 800 bytes take 100 behind the operand's 200."""
    operand = Coming(400, 4, 1)
    assert least_cycles(CHIP, 800) == 100
    assert end_of_product(CHIP, (operand, NOTHING), 8, 800) == 200 + 100


@pytest.mark.parametrize(("rows", "cols"), [(64, 4), (16, 16), (4, 64)])
def test_longer_runs_take_fewer_descriptors(rows: int, cols: int) -> None:
    """A descriptor of n bytes takes 5 cycles beside those of its bytes, n / 4 for each of two."""
    cycles = run_cycles(CHIP, Shape("s8", (rows, cols)), ((0,), (1,)))
    assert cycles >= rows * 5 + rows * cols // 8
    assert cycles <= rows * 5 + rows * cols // 4


def test_each_copy_has_a_latency_unless_several_are_in_hand() -> None:
    """10 cycles of DMA's latency, and none of DRAM."""
    assert in_pieces(CHIP, 100, 3, 2).queue_cycles == 100 + 3 * 2 * 10
    several = ideal_chip(4, 4, dma={"queues": 2, "latency_cycles": 10, "outstanding": 4})
    assert in_pieces(several, 100, 3, 2).queue_cycles == 100 + 2 * 10
