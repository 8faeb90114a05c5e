"""Which tile goes when the state buffer is full, and do messages about room add up?"""

from __future__ import annotations

import re

import pytest

from support.chips import ideal_chip
from systolic.compiler import Options, compile_graph
from systolic.compiler.ir.nodes import StoreNode
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.compiler.place.banks import ROLES, Ring, _dealt
from systolic.compiler.place.free_bytes import Room, Wish
from systolic.compiler.place.residency import Residency
from systolic.errors import CompileError
from systolic.spans import Interval
from systolic.workload import GraphBuilder


def tile(name: str) -> MatrixTile:
    return MatrixTile(name, 0, 0, 0)


def reads(*names: str) -> Task:
    return Task(StoreNode, 0, tuple(map(tile, names)), ())


@pytest.mark.parametrize(
    ("order", "goes"), [("abca", "b"), ("abcb", "a"), ("abcab", "b"), ("abcba", "a")]
)
def test_the_tile_needed_again_latest_goes(order, goes):
    """Two have room; at the third use, `goes` is needed again later than the other, or never."""
    memory = Residency(Room(8), lambda _: Wish("low"), lambda _: 4, "here")
    memory.plan([reads(name) for name in order], ())
    for number, name in enumerate(order[:2]):
        memory.begin(number)
        memory.place(tile(name), dirty=False)
        memory.used(tile(name))
    memory.begin(2)
    assert memory.place(tile(order[2]), dirty=False) is None
    victim = memory.victim((), tile(order[2]))
    assert victim is not None
    assert victim.tile == tile(goes)


@pytest.mark.parametrize(("rest_tasks", "goes"), [(0, "b"), (1, "b"), (2, "a"), (3, "b")])
def test_a_tile_that_has_rested_goes_first(rest_tasks, goes):
    """At task 2 a has not been used for two tasks and b for one; b is needed again later."""
    memory = Residency(Room(8), lambda _: Wish("low"), lambda _: 4, "here", rest_tasks=rest_tasks)
    memory.plan([reads(name) for name in "abcab"], ())
    for number, name in enumerate("ab"):
        memory.begin(number)
        memory.place(tile(name), dirty=False)
        memory.used(tile(name))
    memory.begin(2)
    assert memory.place(tile("c"), dirty=False) is None
    victim = memory.victim((), tile("c"))
    assert victim is not None
    assert victim.tile == tile(goes)


def bytes_from_dram(order: str, keeps: int) -> int:
    """Return how often a letter is brought if so many have room and the best goes: Belady."""
    here: set[str] = set()
    brought = 0
    for now, name in enumerate(order):
        if name in here:
            continue
        brought += 1
        if len(here) == keeps:
            rest = order[now:]
            here.remove(max(here, key=lambda n: rest.find(n) if n in rest else len(order)))
        here.add(name)
    return brought


def test_as_few_tiles_are_brought_as_can_be():
    """Against a statement of the rule that knows letters only."""
    order = "abcdabcdacbdbadc" * 3
    for keeps in (2, 3):
        memory = Residency(Room(4 * keeps), lambda _: Wish("low"), lambda _: 4, "here")
        memory.plan([reads(name) for name in order], ())
        brought = 0
        for number, name in enumerate(order):
            memory.begin(number)
            if tile(name) not in memory.resident:
                brought += 1
                while memory.place(tile(name), dirty=False) is None:
                    victim = memory.victim({tile(name)}, tile(name))
                    assert victim is not None
                    memory.drop(victim)
            memory.used(tile(name))
        assert brought == bytes_from_dram(order, keeps)


@pytest.mark.parametrize("size", [40, 64, 100, 256, 510, 512, 516])
@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize("shape", ["f32[24,1]", "bf16[24,3]", "s8[90,130]", "f32[300,1000]"])
def test_messages_about_room_add_up(shape, home, size):
    """What is needed exceeds what is found, or the largest piece of it that is free."""
    chip = ideal_chip(
        128, 128, state_buffer={"partitions": 128, "bytes_per_partition": size, "banks": 1}
    )
    builder = GraphBuilder(home)
    x = builder.tensor("x", shape)
    dtype, dims = shape.rstrip("]").split("[")
    rows, cols = dims.split(",")
    builder.transpose(x, f"{dtype}[{cols},{rows}]", (1, 0), name="y")
    try:
        compile_graph("test", builder.graph(), chip, Options(via="pe"))
    except CompileError as error:
        text = str(error)
        assert "no room" in text
        wanted, found = text.split(", found ")
        numbers = [int(n) for n in re.findall(r"\b\d+(?= bytes| of (?:the|what|inputs))", wanted)]
        if "=" in wanted:  # a sum that is written out
            numbers = [int(re.findall(r"= (\d+)", wanted)[-1])]
        have, *piece = (int(n) for n in re.findall(r"\b\d+\b", found))
        assert sum(numbers) > have or numbers[0] > piece[0], text


def test_banks_are_dealt_out_as_if_one_by_one():
    """The quick way of dealing out many banks against the slow one."""
    for loads in ((5, 3, 2), (1000, 1, 1, 0), (7, 7, 7, 7), (1, 10**9, 3), (123, 456, 789, 0)):
        load = dict(zip(ROLES, loads, strict=False))
        for banks in (*range(len(load), 40), 333, 5000):
            slow = dict.fromkeys(load, 1)
            for _ in range(banks - len(load)):
                slow[max(slow, key=lambda role: load[role] / slow[role])] += 1
            assert _dealt(load, banks) == slow, (loads, banks)
    assert list(Ring(2, 3, 10, 1)) == [Interval(30, 40), Interval(40, 50), Interval(20, 30)]
