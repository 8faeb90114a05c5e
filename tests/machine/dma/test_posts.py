"""Is the cycle right? A copy that each of its DMA engines posts for, so that a wait is for all.

Held against the same chip on which a copy posts once: nothing but the numbers of posts differs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.explained import lives
from systolic.compiler import compile_graph
from systolic.compiler.ir.broken import BrokenPassError
from systolic.compiler.sync.verify import verify_synchronised
from systolic.critical_path.causes import SEMAPHORE, Causes
from systolic.hw.spec import Chip
from systolic.hw.units import dma_queue
from systolic.isa import Access, Buffer, Copy, DmaCopy, Post, Program, Wait, lint
from systolic.machine import simulate
from systolic.run.validation.programs import posts_of
from systolic.trace.words import KINDS
from systolic.workload import GraphBuilder

ALL = 4


def chip(posts: str = "each_engine", **keys: object) -> Chip:
    dma = {
        "queues": 2, "engines": ALL, "partitions_per_engine": 2, "bytes_per_cycle": 8,
        "latency_cycles": 10, "posts": posts, **keys,
    }  # fmt: skip
    return ideal_chip(8, 8, dma=dma, state_buffer={"port_scope": "bank"})


def brought(number: int, lanes: int, *, post: int = 0) -> DmaCopy:
    source = Access(Buffer.DRAM, "f32", 0, 1, 4096 * number, ((1, lanes * 16),))
    return DmaCopy(
        dma_queue=0, source=source, target=state(0, lanes, 128 * number, 16), posts=(Post(post),)
    )


def used(number: int, lanes: int, value: int) -> Copy:
    source, target = state(0, lanes, 128 * number, 16), state(0, lanes, 32768 + 128 * number, 16)
    return Copy(engine="pooling", source=source, target=target, waits=(Wait(0, value),))


def program(times: int) -> Program:
    """Return three copies, to all lanes and to one, and what waits for so many posts of each."""
    lanes = (8, 1, 4)
    copies = [brought(n, each) for n, each in enumerate(lanes)]
    users = [used(n, each, (n + 1) * times) for n, each in enumerate(lanes)]
    return Program("p", (*copies, *users), ("brought",))


@pytest.mark.parametrize("outstanding", [1, 3])
@pytest.mark.parametrize("cycles", [1, 7])
def test_each_engine_posts_for_a_copy_and_all_count(outstanding: int, cycles: int) -> None:
    keys = {"outstanding": outstanding}
    one, many = chip("once", **keys), chip(**keys)
    one, many = (each.model_copy(update={"semaphore_cycles": cycles}) for each in (one, many))
    for engine in ("event", "register"):
        traces = [
            simulate(on, program(times), engine=engine).trace
            for on, times in ((one, 1), (many, ALL))
        ]
        assert traces[0].times == traces[1].times
        assert traces[0].labels == traces[1].labels
        ends = [t.done for t in traces[1].times if t.unit == dma_queue(0)]
        posts = [s for s in traces[1].semaphores if s.kind == "post"]
        assert [(s.tick, s.value) for s in posts] == [
            (end, ALL * n + k + 1) for n, end in enumerate(ends) for k in range(ALL)
        ]
    found = [
        simulate(many, program(ALL), engine=each, kinds=KINDS) for each in ("event", "register")
    ]  # type: ignore[arg-type]
    assert_same(*found)


def test_the_checker_asks_for_the_posts_of_all_engines() -> None:
    on, (first, *_, last) = chip(), program(ALL).instructions
    del last
    inputs = [first.source]  # type: ignore[union-attr]
    for value, codes in (
        (ALL, []),
        (ALL - 1, ["read-after-write"]),
        (1, ["read-after-write"]),
        (ALL + 1, ["never-posted"]),
    ):
        tried = Program("p", (first, used(0, 8, value)), ("brought",))
        assert [d.code for d in lint(tried, on, inputs)] == codes
    (missing,) = lint(Program("p", (first, used(0, 8, 5)), ("brought",)), on)
    assert missing.message.endswith(" to reach 5, but the whole program posts it 4 times")
    assert lint(program(ALL), on) == []
    assert "read-after-write" in [d.code for d in lint(program(1), on)]


def test_some_of_the_posts_do_not_say_that_a_source_has_been_read() -> None:
    """Where a multiply posts its partitions one by one, the first says so."""
    on = chip()
    out = DmaCopy(dma_queue=0, source=state(0, 8, 0, 16), posts=(Post(0),),
                  target=Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 128),)))  # fmt: skip
    over = Copy(engine="pooling", source=state(0, 8, 4096, 16), target=state(0, 8, 0, 16))
    for value, codes in ((ALL, []), (ALL - 1, ["write-after-read"])):
        later = replace(over, waits=(Wait(0, value),))
        assert [d.code for d in lint(Program("p", (out, later), ("sent",)), on)] == codes


def test_what_held_a_start_back_is_the_copy() -> None:
    causes = Causes(lives(chip(outstanding=2), program(ALL)))
    last = causes.last(3)
    assert last is not None
    assert last.reason == SEMAPHORE
    assert last.point is not None
    assert last.point.instruction == 0
    assert [len(posts) for posts in causes.posts] == [3 * ALL]


def test_posts_are_counted_for_the_rows_of_a_table_of_figures() -> None:
    lines = program(1).instructions
    assert posts_of(lines, chip()) == {0: 3 * ALL}
    assert posts_of(lines, chip("once")) == {0: 3}


def test_compiled_programs_wait_for_all_engines() -> None:
    builder = GraphBuilder("dram")
    left, right = builder.tensor("a", "f32[16,8]"), builder.tensor("b", "f32[8,16]")
    builder.matmul(left, right, "f32[16,16]", name="c")
    graph, keys = builder.graph(), {"outstanding": 2}
    once, each = (
        compile_graph("p", graph, chip(posts, **keys), verify=True)
        for posts in ("once", "each_engine")
    )
    assert len(once.program.instructions) == len(each.program.instructions)
    of_copies = {
        post.semaphore
        for i in each.program.instructions
        if isinstance(i, DmaCopy)
        for post in i.posts
    }
    scaled = 0
    for a, b in zip(once.program.instructions, each.program.instructions, strict=True):
        assert a.posts == b.posts
        for mine, theirs in zip(a.waits, b.waits, strict=True):
            times = ALL if mine.semaphore in of_copies else 1
            assert (theirs.semaphore, theirs.value) == (mine.semaphore, times * mine.value)
            scaled += times > 1
    assert scaled > 0
    pairs = (("once", once), ("each_engine", each))
    runs = [simulate(chip(p, **keys), c.program, values=False).trace for p, c in pairs]
    assert runs[0].times == runs[1].times
    drafts = each.plan.scheduled.drafts
    with pytest.raises(BrokenPassError):  # the waits of a chip whose copies post once
        verify_synchronised(drafts, once.program, chip(**keys))
