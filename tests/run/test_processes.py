"""Do processes give every result, whichever of them ends in the middle?"""

from __future__ import annotations

import os
import time

import pytest

from systolic.errors import SystolicError
from systolic.run.batches import ItemBatches
from systolic.run.processes import Ended, as_finished, in_order


def squared(number: int) -> int:
    time.sleep(0.002)
    if number == 7:
        os.kill(os.getpid(), 9)
    return number * number


def late(number: int) -> int:
    time.sleep(0.5 if number == 0 else 0)
    return number


def test_an_item_that_ends_its_process_twice_is_given_up_and_no_other() -> None:
    found = dict(pair for pair in as_finished(squared, range(40), jobs=2) if pair)
    assert found.pop(7) == Ended(2)
    assert found == {number: number**2 for number in range(40) if number != 7}


def test_results_come_in_order_or_as_they_are_done() -> None:
    assert list(in_order(late, range(8), jobs=2, noun="item")) == list(range(8))
    first = next(pair for pair in as_finished(late, range(8), jobs=2) if pair)
    assert first[0] != 0


def test_in_order_an_end_is_an_error() -> None:
    with pytest.raises(SystolicError, match="the process that ran a point was ended from outside"):
        list(in_order(squared, range(6, 9), jobs=2, noun="point"))


def test_items_are_taken_only_when_there_is_room() -> None:
    taken = []

    def items() -> object:
        for number in range(100):
            taken.append(number)
            yield number

    results = as_finished(late, items(), jobs=1)  # type: ignore[arg-type]
    next(results)
    assert taken == [0]


def test_batches_grow_with_quick_items_and_split_when_one_ends() -> None:
    batches = ItemBatches(range(1000), 0.25)
    first = batches.take()
    assert len(first) == 1
    batches.done(first, 0.01)
    second = batches.take()
    assert len(second) == 25
    assert batches.ended(second) == []
    again = [batches.take() for _ in second]
    assert [batch[0].item for batch in again] == [entry.item for entry in second]
    assert [entry.item for entry in batches.ended(again[3])] == [second[3].item]
    batches.done(again[0], 1e-9)
    assert len(batches.take()) <= 50
