"""Is every semaphore post needed? Counted on compiled programs; soundness is `lint`'s to judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from random import Random

import pytest

from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.ir.dependencies import Key, Ref, Region
from systolic.compiler.ir.drafts import Draft, Drafts
from systolic.compiler.sync.semaphores import synchronise_drafts
from systolic.config import load_chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, LoadWeights, MatMul
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


READ, WRITTEN, MADE = ("read", "psum0", "pooling"), ("written", "sb0", "pooling"), ("dma0",)
OTHER = ("written", "sb64", "activation")


def on_engine(queue: str, partition: int, *needs: Ref) -> Draft:
    source = Access(Buffer.RESULT, "f32", partition, 1, 0, ((1, 16),))
    target = Access(Buffer.STATE, "f32", partition, 1, 0, ((1, 16),))
    copy = Copy(engine=queue, source=source, target=target)
    keys: tuple[Key, ...] = (READ, WRITTEN) if queue == "pooling" else (OTHER,)
    return Draft(copy, "", needs, keys, len(needs))


def stores(*needs: Ref) -> Draft:
    return Draft(DmaCopy(dma_queue=0, source=dram(), target=dram(64)), "", needs, (MADE,), 0)


@pytest.mark.parametrize("shared_lane", [False, True])
def test_posts_of_one_event_follow_from_one_another(shared_lane):
    """Instruction 2 waits until 0 and 1 have read; the store then waits for 2 alone.

    If 0 and 1 use one lane, 1 reads after 0, whose post that it has read is therefore removed. That
    0 has written then follows from nothing, and the store waits for it.
    """
    drafts = [
        on_engine("pooling", 0),
        on_engine("pooling", 0 if shared_lane else 1),
        on_engine("activation", 0, Ref(0, "pooling", READ), Ref(1, "pooling", READ)),
        stores(Ref(0, "pooling", WRITTEN), Ref(1, "pooling", WRITTEN), Ref(2, "activation", OTHER)),
    ]
    made = synchronise_drafts("test", drafts, CHIP)
    names = made.program.semaphores
    found = [
        {names[wait.semaphore]: wait.value for wait in each.waits}
        for each in made.program.instructions
    ]
    read, written, other = (" ".join(key) for key in (READ, WRITTEN, OTHER))
    if shared_lane:
        assert found == [{}, {}, {read: 1}, {other: 1, written: 2}]
    else:
        assert found == [{}, {}, {read: 2}, {other: 1}]
        assert [len(each.posts) for each in made.program.instructions] == [1, 1, 1, 0]


def test_a_post_from_which_others_follow_stays():
    """The store waits for an instruction that has waited for 0 and 2, and so need not wait for 0.

    Another instruction waits for 1, in the lane of 0. For that alone 0 would not have to post: 1
    reads after 0 has read. It may end before 0 ends, so the post of 0 stays.
    """
    other = DmaCopy(dma_queue=1, source=dram(), target=dram(64))
    drafts = [
        on_engine("pooling", 0),
        on_engine("pooling", 0),
        on_engine("pooling", 1),
        on_engine("activation", 0, Ref(0, "pooling", READ), Ref(2, "pooling", READ)),
        stores(Ref(0, "pooling", WRITTEN), Ref(3, "activation", OTHER)),
        replace(stores(Ref(1, "pooling", READ)), instruction=other),
    ]
    made = synchronise_drafts("test", drafts, CHIP)
    posts = [len(each.posts) for each in made.program.instructions]
    assert [len(each.waits) for each in made.program.instructions] == [0, 0, 0, 1, 1, 1]
    assert posts == [1, 1, 1, 1, 0, 0]


BANK_BYTES = 64


def in_state(lanes: int, start: int, count: int) -> Access:
    return Access(Buffer.STATE, "f32", 0, lanes, start, ((1, count),))


def sums(lanes: int, bank: int, word: int, count: int) -> Access:
    start = bank * BANK_BYTES + 4 * word
    return Access(Buffer.RESULT, "f32", 0, lanes, start, ((1, count),))


def multiplied_and_copied(rng: Random) -> list[Draft]:
    """Return multiplies of any widths, up to four in a bank, which then is copied out."""
    drafts, banks = Drafts(), [Region(f"psum{bank}") for bank in range(4)]
    weights, moving, copied = Region("weights"), Region("moving"), Region("copied")
    drafts.add(LoadWeights(weights=in_state(8, 0, 8)), (weights,), ())
    for number in range(10):
        bank, words = number % 4, 0
        for _ in range(rng.randint(1, 4)):
            vectors, columns = rng.randint(1, 3), rng.choice([1, 2, 7, 8])
            result = sums(columns, bank, words, vectors)
            multiply = MatMul(moving=in_state(8, 1024, vectors), result=result)
            drafts.add(multiply, (moving,), (banks[bank],))
            words += vectors
        target = in_state(8, 2048 + number * BANK_BYTES, words)
        copy = Copy(engine="activation", source=sums(8, bank, 0, words), target=target)
        drafts.add(copy, (banks[bank],), (copied,))
    return drafts.found


@pytest.mark.parametrize("seed", range(20))
def test_the_checker_knows_what_multiplies_need_not_post(seed: int) -> None:
    """A multiply leaves its post to one behind it in the bank; narrower ones come after that."""
    chip = ideal_chip(8, 8, result_buffer={"banks": 4, "bank_bytes": BANK_BYTES})
    made = synchronise_drafts("test", multiplied_and_copied(Random(seed)), chip)
    assert not lint(made.program, chip)
    assert made.saving.posts < made.saving.asked_posts
