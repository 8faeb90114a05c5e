"""Does the path hold? Its cycles sum to the run, and it is what the run's length hangs on.

Each oracle is the simulation of a changed chip. Where no port is refused and no bandwidth shared, a
run can become no shorter than the path lets it, and no faster by what is off the path.
"""

from __future__ import annotations

from collections import Counter

import pytest

from support.blocks import block_program, state
from support.chips import ideal_chip
from support.explained import lives, random_run, unshared, with_keys
from support.tiers import quick_first
from systolic.critical_path.causes import Causes
from systolic.critical_path.path import Link, critical_path, in_cycles
from systolic.critical_path.points import Lives
from systolic.isa import Copy, Program
from systolic.machine import simulate
from systolic.machine.spared import Spared

FREE = Spared(ports=True)


def path_of(run: Lives) -> list[Link]:
    return critical_path(Causes(run), lambda index, ticks: {"moving": ticks})


def spent(path: list[Link]) -> Counter[tuple[str, str]]:
    """Return the ticks of a path by unit and reason."""
    found = Counter[tuple[str, str]]()
    for link in path:
        found.update({(link.unit, reason): ticks for reason, ticks in link.reasons.items()})
    return found


@pytest.mark.parametrize("seed", quick_first(range(200), 60))
def test_the_links_follow_one_another_and_sum_to_the_run(seed):
    run = random_run(seed)
    tick = 0
    for link in path_of(run):
        assert link.first == tick < link.stop
        assert sum(link.reasons.values()) == link.stop - link.first
        assert min(link.reasons.values()) > 0
        assert "unexplained" not in link.reasons
        tick = link.stop
    assert tick == run.trace.ticks


def test_an_empty_program_has_no_path():
    assert path_of(lives(ideal_chip(4, 4), Program("empty", ()))) == []


def test_the_worked_total_by_hand():
    """Loads in 0-3, vectors in 4-7, results until 13, copied in 14-17, written until 18."""
    path = path_of(lives(ideal_chip(4, 4), block_program(4, 4)))
    assert path == [
        Link(0, "pe_array", 0, 4, {"loading": 4}),
        Link(1, "pe_array", 4, 14, {"streaming": 4, "draining": 6}),
        Link(2, "activation", 14, 19, {"streaming": 4, "draining": 1}),
    ]


def test_a_copy_of_each_row_waits_for_its_row_only():
    """Vectors in 4, 6, 8 and 10: the last row is complete in 16, the other copies are over."""
    chip = ideal_chip(4, 4, pe_array={"cycles_per_vector": {"f32": 2}})
    path = path_of(lives(chip, block_program(4, 4, "row")))
    assert path == [
        Link(0, "pe_array", 0, 4, {"loading": 4}),
        Link(1, "pe_array", 4, 17, {"streaming": 7, "draining": 6}),
        Link(5, "activation", 17, 19, {"streaming": 1, "draining": 1}),
    ]


def test_refused_cycles_are_told_apart():
    """Both read bank 0 for 3 cycles; the pooling engine, which has to stand back, reads behind."""

    def copy(engine: str, bank: int) -> Copy:
        source, target = state(0, 4, 0, 3), state(0, 4, 8192 * bank, 3)
        return Copy(engine=engine, source=source, target=target)

    run = lives(ideal_chip(4, 4), Program("two", (copy("activation", 1), copy("pooling", 2))))
    assert path_of(run) == [
        Link(0, "activation", 0, 3, {"refusing pooling": 3}),
        Link(1, "pooling", 3, 7, {"streaming": 3, "draining": 1}),
    ]


SEEDS = quick_first(range(120), 40)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_run_becomes_no_shorter_than_the_path_lets_it(seed):
    """Without latency of DMA, or with posts seen at once, no more is saved than the path has."""
    chip, program = unshared(seed)
    run = lives(chip, program, FREE)
    path = spent(path_of(run))
    latency = sum(t for (unit, reason), t in path.items() if reason == "latency")
    quick = with_keys(chip, dma={"latency_cycles": 0}, dram={"latency_cycles": 0})
    assert lives(quick, program, FREE).trace.ticks >= run.trace.ticks - latency
    seen = sum(t for (unit, reason), t in path.items() if reason == "semaphore")
    quick = with_keys(chip, semaphore_cycles=1)
    assert lives(quick, program, FREE).trace.ticks >= run.trace.ticks - seen


@pytest.mark.parametrize("seed", SEEDS)
def test_the_run_becomes_longer_by_what_is_added_to_the_path(seed):
    """Each link that ends with results draining has the latency of its engine once."""
    chip, program = unshared(seed)
    run = lives(chip, program, FREE)
    path = path_of(run)
    for name, engine in chip.lane_engines.items():
        drained = sum(link.unit == name and "draining" in link.reasons for link in path)
        slow = {name: engine.model_copy(update={"latency_cycles": engine.latency_cycles + 5})}
        engines = {n: e.model_dump() for n, e in {**chip.lane_engines, **slow}.items()}
        slower = lives(with_keys(chip, engines=engines), program, FREE)
        assert slower.trace.ticks >= run.trace.ticks + 5 * drained


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_off_the_path_may_be_faster_and_nothing_changes(seed):
    """Units without a link get the least latency, no dispatch and no interval."""
    chip, program = unshared(seed)
    run = lives(chip, program, FREE)
    on_path = {link.unit for link in path_of(run)}
    fast = {"dispatch_cycles": 0, "min_interval_cycles": 0, "fixed_cycles": 0, "latency_cycles": 1}
    engines = {name: engine.model_dump() for name, engine in chip.lane_engines.items()}
    engines |= {name: table | fast for name, table in engines.items() if name not in on_path}
    tables = {"engines": engines}
    if not any(unit.startswith("dma") for unit in on_path):
        tables["dma"] = {"latency_cycles": 0, "descriptor_cycles": 0, "dispatch_cycles": 0}
    if "pe_array" not in on_path:
        tables["pe_array"] = {"entry_cycles": 0, "dispatch_cycles": 0, "min_interval_cycles": 0}
    changed = with_keys(chip, **tables)
    assert lives(changed, program, FREE).trace.ticks == run.trace.ticks


def test_most_random_programs_have_something_off_the_path():
    """So that the test above says something."""
    off = 0
    for seed in range(40):
        run = lives(*unshared(seed), FREE)
        units = {link.unit for link in path_of(run)}
        off += any(unit not in units for unit in run.queues)
    assert off > 25


def test_nothing_is_refused_where_ports_are_free():
    refused = 0
    for seed in range(40):
        chip, program = unshared(seed)
        refused += bool(simulate(chip, program, values=False).trace.stalls)
        assert not simulate(chip, program, values=False, spared=FREE).trace.stalls
    assert refused > 10


def test_cycles_of_stretches_sum_to_those_of_the_whole():
    assert in_cycles([3, 3, 1], 2) == [2, 1, 1]
    assert in_cycles([], 2) == []
