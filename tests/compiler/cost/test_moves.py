"""Are copies on the chip cut as a person would cut them? Expected values are worked out by hand."""

from __future__ import annotations

import pytest

from support.chips import ideal_chip
from systolic.compiler.cost.moves import bands_of_copy, copy_ticks

DMA = {"bytes_per_cycle": 256, "latency_cycles": 100, "descriptor_cycles": 10, "queues": 4}


@pytest.mark.parametrize(
    ("cols", "dma", "bands"),
    [
        (10_000, {}, 5),  # waits 100 + 4 * (10 + 1) = 144, moves 4 * 156 = 624 cycles more
        (1_000, {}, 1),  # moves 4 * 15 = 60 cycles more
        (10_000, {"bytes_per_cycle": 8}, 1),  # 4 * 5,010 cycles; an engine takes 10,000
    ],
)
def test_a_band_moves_for_as_long_as_it_waits(cols, dma, bands):
    chip = ideal_chip(4, 4, dma={**DMA, **dma})
    assert bands_of_copy(chip, 4, cols, 4) == bands


@pytest.mark.parametrize(
    ("bytes_per_cycle", "ticks"),
    [(256, (100 + 4 * (10 + 157)) // 4), (8, 10_000 // 2)],  # by four queues, by two engines
)
def test_a_copy_takes_its_share_of_queues_or_engines(bytes_per_cycle, ticks):
    chip = ideal_chip(4, 4, dma={**DMA, "bytes_per_cycle": bytes_per_cycle})
    assert copy_ticks(chip, 4, 10_000, 4) == ticks
