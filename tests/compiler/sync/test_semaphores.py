"""Is every semaphore post needed? Counted on compiled programs; soundness is `lint`'s to judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from systolic.compiler import compile_graph
from systolic.compiler.ir.drafts import Draft
from systolic.config import load_chip
from systolic.isa import Access, Buffer, DmaCopy, LoadWeights, MatMul
from systolic.isa.lint.lint import lint
from systolic.workload import GraphBuilder

CHIP = load_chip("configs/chips/ideal_128x128.toml")


@pytest.mark.parametrize("layouts", [("{1,0}", "{1,0}"), ("{1,0}", "{0,1}"), ("{0,1}", "{1,0}")])
def test_what_happens_in_order_is_posted_only_if_it_is_waited_for(layouts):
    """Full tiles everywhere: the array and DMA queues end in order, and engines read in order."""
    builder = GraphBuilder("dram")
    x = builder.tensor("x", f"bf16[1024,1024]{layouts[0]}")
    w = builder.tensor("w", f"bf16[1024,1024]{layouts[1]}")
    builder.matmul(x, w, "bf16[1024,1024]", name="y")
    compiled = compile_graph("test", builder.graph(), CHIP)
    instructions = compiled.program.instructions
    waited = defaultdict(set)
    posts: Counter[int] = Counter()
    in_order = set(range(len(compiled.program.semaphores)))
    for instruction in instructions:
        for wait in instruction.waits:
            waited[wait.semaphore].add(wait.value)
        for post in instruction.posts:
            posts[post.semaphore] += 1
            is_copy = not isinstance(instruction, LoadWeights | MatMul | DmaCopy)
            if is_copy and compiled.program.semaphores[post.semaphore].startswith("written"):
                in_order.discard(post.semaphore)
    assert len(in_order) > 8
    for semaphore in in_order:
        assert posts[semaphore] == len(waited[semaphore]), compiled.program.semaphores[semaphore]
    assert not lint(compiled.program, CHIP)
    assert compiled.saving.posts == sum(posts.values()) <= compiled.saving.asked_posts


def dram(start: int = 0) -> Access:
    return Access(Buffer.DRAM, "f32", 0, 1, start, ((1, 16),))


def test_only_the_key_of_parts_is_posted_for_each_of_them():
    copy = DmaCopy(dma_queue=0, source=dram(), target=dram(64))
    draft = Draft(copy, "", (), (("row", 1), ("all", 2)), 0, (("row", 1), "row", 4))
    assert draft.posts_of(("row", 1)) == ("row", 4)
    assert draft.posts_of(("all", 2)) == ("done", 1)
    assert replace(draft, parts=None).posts_of(("row", 1)) == ("done", 1)
