"""Do instructions of an engine share a plan only if each would have that plan by itself?"""

from __future__ import annotations

from collections import defaultdict
from random import Random

from support.blocks import state
from support.chips import ideal_chip
from systolic.isa import Access, Buffer, Copy, OnEngine, TensorTensor
from systolic.machine.event.lane_engine.plan import LanePlan, form_of, likeness, plan_of

BANK = 64
CHIP = ideal_chip(
    4,
    4,
    state_buffer={"bytes_per_partition": 8 * BANK, "banks": 8},
    result_buffer={"banks": 4, "bank_bytes": BANK},
)


def access(rng: Random, elements: int) -> Access:
    """Return an access to one bank, or across an edge of one."""
    step = rng.choice([1, 2])
    buffer = rng.choice([Buffer.STATE, Buffer.STATE, Buffer.RESULT])
    start = 4 * rng.randrange((2 * BANK - 4 * step * elements) // 4)
    return Access(buffer, "f32", 0, 2, start, ((step, elements),))


def instruction(rng: Random) -> OnEngine:
    elements = rng.choice([3, 6])
    one, other, target = (access(rng, elements) for _ in range(3))
    if rng.random() < 0.5:
        return Copy(engine="pooling", source=one, target=target)
    return TensorTensor(engine="pooling", op="add", left=one, right=other, target=target)


def contents(plan: LanePlan) -> object:
    return list(plan.timeline), plan.timeline.slots, plan.steps, plan.first_write


def test_what_is_alike_has_one_plan():
    rng = Random(5)
    work = [instruction(rng) for _ in range(2000)]
    alike = defaultdict(list)
    for each in work:
        alike[likeness(each, CHIP)].append(contents(plan_of(each, CHIP.engine("pooling"), CHIP)))
    assert len(alike) < len(work) * 3 // 4  # the test has some that are alike
    for plans in alike.values():
        assert all(plan == plans[0] for plan in plans)


def test_what_has_one_form_has_one_plan_but_for_the_banks():
    rng, engine = Random(6), CHIP.engine("pooling")
    alike = defaultdict(dict)
    for each in (instruction(rng) for _ in range(3000)):
        if (form := form_of(each, CHIP)) is not None:
            alike[form.what].setdefault(form.banks, plan_of(each, engine, CHIP))
    assert sum(len(plans) > 1 for plans in alike.values()) > 20  # the test has some
    for plans in alike.values():
        old, plan = next(iter(plans.items()))
        for new, wanted in plans.items():
            assert contents(plan.in_banks(old, new)) == contents(wanted)


def test_where_in_its_bank_an_access_begins_makes_no_difference():
    def copy(start: int, target: int) -> Copy:
        return Copy(engine="pooling", source=state(0, 2, start, 4), target=state(0, 2, target, 4))

    first = likeness(copy(0, 128), CHIP)
    assert likeness(copy(16, 132), CHIP) == first
    assert likeness(copy(64, 128), CHIP) != first  # another bank
    assert likeness(copy(56, 128), CHIP) != likeness(copy(60, 128), CHIP)  # across an edge
