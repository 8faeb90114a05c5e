"""Decisions by what changes for the streams that meet, not by all that any of them comes to.

Each partition has ports of its own. What happens is held against the register engine, which steps
every cycle; how often the arbiter decides is counted at two sizes of the same work.
"""

from __future__ import annotations

from random import Random

import pytest

from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.events import events_and_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, Instruction, Post, Program, Wait
from systolic.machine import simulate
from systolic.machine.event.ports.arbiter import Arbiter

BANK_BYTES = 8192
QUEUES = {"queues": 4, "descriptor_cycles": 2, "bytes_per_cycle": 4, "latency_cycles": 0}


def chip_of(**dma: object) -> Chip:
    state_buffer = {"port_scope": "partition"}
    dram = {"bytes_per_cycle": 1024, "latency_cycles": 0}
    return ideal_chip(4, 4, state_buffer=state_buffer, dram=dram, dma={**QUEUES, **dma})


def within(partition: int, start: int, elements: int, dtype: str = "u8") -> Access:
    return Access(Buffer.STATE, dtype, partition, 1, start, ((1, elements),))


def decisions(chip: Chip, program: Program) -> tuple[int, int]:
    """Run a program for times only; return the arbiter's decisions between streams and cycles."""
    decided = 0
    arbitrate = Arbiter._arbitrate

    def counted(arbiter: Arbiter, *of_tick: object) -> int:
        nonlocal decided
        decided += 1
        return arbitrate(arbiter, *of_tick)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Arbiter, "_arbitrate", counted)
        cycles = simulate(chip, program, values=False).trace.cycles()
    return decided, cycles


def over_an_edge(size: int) -> Program:
    """Return two queues, each with one descriptor that begins half of it before a bank's end.

    Queue 0 comes from bank 0 into bank 1 of partition 0 and writes banks 4 and 5 of partition 1.
    Queue 1 works in the same banks of the partitions above, and its second copy in those of queue
    0, so that the arbiter has to look.
    """
    first, above = BANK_BYTES - size // 2, 5 * BANK_BYTES - size // 2
    return Program(
        "over an edge",
        (
            DmaCopy(dma_queue=0, source=within(0, first, size), target=within(1, above, size)),
            DmaCopy(dma_queue=1, source=within(2, first, size), target=within(3, above, size)),
            DmaCopy(dma_queue=1, source=within(1, first, size), target=within(0, above, size)),
            DmaCopy(dma_queue=2, source=within(0, first, size), target=within(2, above, size)),
        ),
    )


def test_descriptors_over_banks_cost_decisions_by_their_edges():
    small, large = (decisions(chip_of(), over_an_edge(size)) for size in (400, 4000))
    assert large[1] > 5 * small[1]
    assert large[0] <= small[0] + 4


def beside_an_engine(elements: int) -> Program:
    """Return an engine that reads one bank and writes two in turn, and a queue that wants the one.

    The engine has the reading port of bank 0 from first to last, so the queue waits for its end.
    """
    source = Access(Buffer.STATE, "f32", 0, 2, 0, ((1, elements),))
    two_banks = ((2, elements // 4), (BANK_BYTES // 4, 2), (1, 2))
    target = Access(Buffer.STATE, "f32", 0, 2, 4 * BANK_BYTES, two_banks)
    done = Post(0)
    return Program(
        "beside an engine",
        (
            Copy(engine="pooling", source=source, target=target),
            DmaCopy(dma_queue=0, source=within(0, 4096, 64), target=within(0, 7 * BANK_BYTES, 64),
                    posts=(done,)),
            DmaCopy(dma_queue=0, source=within(1, 4096, 64), target=within(1, 7 * BANK_BYTES, 64)),
            Copy(engine="activation", source=within(3, 0, 8), target=within(3, 64, 8),
                 waits=(Wait(0, 1),)),
        ),
        ("done",),
    )  # fmt: skip


def test_a_queue_that_is_held_costs_decisions_by_what_holds_it():
    small, large = (decisions(chip_of(), beside_an_engine(size)) for size in (80, 800))
    assert large[1] > 5 * small[1]
    assert large[0] <= small[0] + 4


def test_a_queue_that_is_held_is_asked_for_its_end_when_it_goes_on():
    """Its next copy, and what waits for its post, sleep until then."""
    small, large = (events_and_cycles(chip_of(), beside_an_engine(size)) for size in (80, 800))
    assert large[1] > 5 * small[1]
    assert large[0] <= small[0] + 4


def random_work(rng: Random) -> tuple[Chip, Program]:
    """Return queues and engines in a few banks, over their edges, with posts and waits."""
    chip = chip_of(
        descriptor_cost=rng.choice(["sum", "max"]), bytes_per_cycle=rng.choice([3, 4, 16]),
        partitions_per_cycle=rng.choice([1, 2]), engines=rng.choice([2, 4]),
    )  # fmt: skip
    instructions: list[Instruction] = []
    posts = 0

    def place(size: int) -> int:
        edge = rng.randint(1, 3) * BANK_BYTES
        return edge - rng.choice([0, size // 3, size // 2, size, 2 * size])

    for _ in range(rng.randint(3, 7)):
        waits = (Wait(0, rng.randint(1, posts)),) if posts and rng.random() < 0.4 else ()
        posted = (Post(0),) if rng.random() < 0.6 else ()
        lane, lanes = rng.randint(0, 2), rng.randint(1, 2)
        if rng.random() < 0.6:
            size = rng.choice([7, 64, 200])
            parts = rng.choice([((1, size),), ((size + 5, 2), (1, size))])
            low, above = place(size), 4 * BANK_BYTES + place(size)
            source = Access(Buffer.STATE, "u8", lane, lanes, low, parts)
            target = Access(Buffer.STATE, "u8", rng.randint(0, 2), lanes, above, parts)
            queue = rng.randint(0, 3)
            instructions.append(
                DmaCopy(dma_queue=queue, source=source, target=target, waits=waits, posts=posted)
            )
        else:
            runs = rng.randint(2, 12)
            far = ((2, runs), (BANK_BYTES // 4, rng.randint(1, 2)), (1, 2))
            flat = ((1, runs * far[1][1] * 2),)
            patterns = [far, flat] if rng.random() < 0.5 else [flat, far]
            source = Access(Buffer.STATE, "f32", lane, lanes, rng.choice([0, 4096]), patterns[0])
            target = Access(Buffer.STATE, "f32", lane, lanes, 4 * BANK_BYTES, patterns[1])
            engine = rng.choice(["activation", "pooling"])
            instructions.append(
                Copy(engine=engine, source=source, target=target, waits=waits, posts=posted)
            )
        posts += len(posted)
    return chip, Program("random", tuple(instructions), ("done",))


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.slow) for n in range(12, 200))]
)
def test_it_is_as_if_every_cycle_were_decided(seed: int):
    chip, program = random_work(Random(seed))
    assert_same(
        simulate(chip, program, values=False),
        simulate(chip, program, values=False, engine="register"),
    )
