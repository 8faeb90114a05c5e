"""Is every start explained? The latest cause of an instruction's start is that very start.

The causes are told from the records alone; the simulation knows nothing of them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.explained import lives, random_run
from support.tiers import quick_first
from systolic.critical_path.causes import Cause, Causes
from systolic.critical_path.points import Point
from systolic.isa import Access, Buffer, DmaCopy, LoadWeights, MatMul, Memset, Post, Program, Wait

SEEDS = quick_first(range(200), 60)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_latest_cause_of_a_start_is_the_start(seed):
    run = random_run(seed)
    causes = Causes(run)
    for index in run.times:
        last, period = causes.last(index), run.period(index)
        tick = 0 if last is None else last.tick
        assert -(-tick // period) * period == causes.could_start(index), (index, last)


@pytest.mark.parametrize("seed", SEEDS)
def test_posts_are_found_again_with_the_instruction_that_made_them(seed):
    """Every post of the records, by semaphore, unit and tick: also by row and by partition."""
    run = random_run(seed)
    found = Counter(
        (number, run.times[made.point.instruction].unit,
         made.point.tick - run.period(made.point.instruction))
        for number, posts in enumerate(Causes(run).posts)
        for made in posts
    )  # fmt: skip
    events = run.trace.semaphores
    assert found == Counter((e.semaphore, e.unit, e.tick) for e in events if e.kind == "post")


@pytest.mark.parametrize("seed", quick_first(range(1, 241, 4), 40))
def test_a_fetch_begins_when_the_path_is_free_or_a_slot_is(seed):
    run = random_run(seed)
    causes = Causes(run)
    for index, fetch in run.fetches.items():
        before, start = causes.fetch_before(index), causes.slot_before(index)
        if before is not None:
            assert causes.path_free(before) == fetch.begin
        elif start is not None:
            assert causes.fetch_cycle_after(start.tick) == fetch.begin
        else:
            assert fetch.begin == 0


# -- by hand --------------------------------------------------------------------------------------


def fill(engine: str, elements: int = 1, **keys: object) -> Memset:
    start = {"activation": 0, "pooling": 8192}[engine]
    return Memset(engine=engine, target=state(0, 4, start, elements), value=0, **keys)  # type: ignore[arg-type]


def last(chip_tables: dict[str, object], *instructions: object, of: int) -> Cause | None:
    program = Program("hand", tuple(instructions), ("a",))  # type: ignore[arg-type]
    return Causes(lives(ideal_chip(4, 4, **chip_tables), program)).last(of)  # type: ignore[arg-type]


def test_a_semaphore():
    """Fills of 3 elements are read in 0 to 2 and written in 1 to 3: done at the end of 3."""
    first, second = fill("activation", 3, posts=(Post(0),)), fill("pooling", waits=(Wait(0, 1),))
    found = last({"semaphore_cycles": 3}, first, second, of=1)
    assert found == Cause(Point(0, 4, 3), 6, "semaphore")


def test_lanes_and_the_least_distance_of_two_starts():
    fills = fill("activation", 3), fill("activation")
    assert last({"activation": {"latency_cycles": 5}}, *fills, of=1) == Cause(
        Point(0, 3, 3), 3, "queue"
    )
    far = {"activation": {"min_interval_cycles": 7}}
    assert last(far, *fills, of=1) == Cause(Point(0, 0, 0), 7, "interval")


def test_dispatch_runs_behind_the_start_before():
    found = last(
        {"activation": {"dispatch_cycles": 9}}, fill("activation"), fill("activation"), of=1
    )
    assert found == Cause(Point(0, 0, 0), 9, "dispatch")


@pytest.mark.parametrize(
    ("weight_buffer", "point"),
    # A load of 4 reads, vectors in 4, 5, 6. Drained 4 + 3 cycles behind the last: in 6 + 7.
    [("double", Point(1, 4, 4)), ("single", Point(1, 6, 6)), ("serial", Point(1, 13, 7))],
)
def test_a_load_waits_for_the_weights_to_be_free(weight_buffer, point):
    load = LoadWeights(weights=state(0, 4, 0, 4))
    multiply = MatMul(moving=state(0, 4, 8192, 3), result=psum(0, 4, 0, 3))
    found = last({"pe_array": {"weight_buffer": weight_buffer}}, load, multiply, load, of=2)
    assert found == Cause(point, point.tick, "queue")


@pytest.mark.parametrize(
    ("outstanding", "cause"),
    # 32 bytes at 8 per cycle behind a latency of 10: the first copy is over at the end of 13.
    [(1, Cause(Point(0, 14, 14), 14, "queue")), (2, Cause(Point(0, 0, 0), 1, "interval"))],
)
def test_a_queue_of_copies(outstanding, cause):
    def copy(byte: int) -> DmaCopy:
        outside = Access(Buffer.DRAM, "f32", 0, 1, byte, ((1, 8),))
        return DmaCopy(dma_queue=0, source=outside, target=state(0, 1, byte, 8))

    dma = {"latency_cycles": 10, "bytes_per_cycle": 8, "outstanding": outstanding}
    assert last({"dma": dma}, copy(0), copy(64), of=1) == cause
