"""Does the search for reference cycles rest in a block, and go on behind it?"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from systolic.collector import collector_at_rest


@pytest.fixture(autouse=True)
def collector_of_a_new_process() -> Iterator[None]:
    """Start from a collector that is on and holds nothing frozen, whatever ran before."""
    gc.unfreeze()
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_rests_within_a_block_only() -> None:
    assert gc.isenabled()
    with collector_at_rest():
        assert not gc.isenabled()
        with collector_at_rest():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_goes_on_after_an_error() -> None:
    with pytest.raises(ValueError, match="wrong"), collector_at_rest():
        raise ValueError("wrong")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_at_rest():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_a_block_leaves_is_not_looked_through_behind_it() -> None:
    with collector_at_rest():
        kept = [[number] for number in range(1000)]
    young = {id(each) for each in gc.get_objects(generation=0)}
    assert not young & {id(each) for each in kept}


def test_what_was_frozen_stays_so() -> None:
    gc.freeze()
    try:
        with collector_at_rest():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
