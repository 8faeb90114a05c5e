"""Does the map show every life, and the panel above it every byte?"""

from __future__ import annotations

import numpy as np
import pytest

from systolic.report.plots.memory import MOST_BOXES, ByteScale, alive, memory_boxes
from systolic.report.plots.sheet import COLUMNS
from systolic.report.plots.stretches import even_edges
from systolic.report.plots.subject import Life
from systolic.spans import Interval

PARTITIONS = Interval(0, 4)


def life(first: int, stop: int, byte: int = 0, size: int = 8) -> Life:
    return Life(0, PARTITIONS, Interval(byte, byte + size), 4 * size, first, stop)


def test_bytes_alive_by_hand() -> None:
    lives = [life(0, 10), life(5, 20, size=2)]
    assert list(alive(lives, even_edges(Interval(0, 20), 4))) == [32, 40, 8, 8]


def test_few_lives_are_boxes_of_their_own() -> None:
    found = memory_boxes([life(0, 10), life(3, 5, 64)], ["a", "b"], Interval(2, 8))
    assert [(box.name, box.bytes.first, box.first, box.stop) for box in found] == [
        ("a", 0, 2, 8), ("b", 64, 3, 5),
    ]  # fmt: skip


def test_of_many_lives_none_is_lost() -> None:
    """One of a single tick in ten million, among more than can be drawn one by one."""
    lives = [life(1000 * n, 1000 * n + 500) for n in range(MOST_BOXES + 1)]
    lives.append(life(9_000_123, 9_000_124, byte=512))
    found = memory_boxes(lives, ["a"] * len(lives), Interval(0, 10_000_000))
    (short,) = [box for box in found if box.bytes.first == 512]
    assert short.first <= 9_000_123 < 9_000_124 <= short.stop
    assert short.stop - short.first >= 10_000_000 / COLUMNS - 1e-6
    assert len(found) <= 2 * COLUMNS


@pytest.mark.parametrize("seed", range(20))
def test_the_scale_keeps_the_order_of_bytes(seed: int) -> None:
    random = np.random.default_rng(seed)
    firsts = random.integers(0, 100_000, random.integers(1, 60))
    boxes = [Interval(int(f), int(f + random.integers(1, 3000))) for f in firsts]
    scale = ByteScale.of(boxes)
    assert scale.place(min(box.first for box in boxes)) == 0
    assert scale.place(max(box.stop for box in boxes)) == pytest.approx(1)
    for box in boxes:
        assert scale.place(box.stop) > scale.place(box.first)
        assert any(each.first <= box.first and box.stop <= each.stop for each in scale.used)
