"""Is the value right? Moves from DRAM to DRAM in words that the array turns once.

numpy is the oracle of values. `support.packed.run` has both engines leave the same trace and the
same memory, in memories full of other bits, and the program checker look at every dependency.
"""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from compiler.lower.test_relays import moved
from support.packed import run
from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.cost.word_turns import words_turned
from systolic.compiler.ir.move_parts import move_parts
from systolic.compiler.lower import moves, ways
from systolic.compiler.lower.word_ways import on_words
from systolic.config import load_chip
from systolic.isa import Copy, PassThrough
from systolic.layout import Shape
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder
from systolic.workload.options import Options

WORDS = "by words that the array turns"


def move(source: str, out: str, permutation: tuple[int, ...] | None = None) -> Graph:
    builder = GraphBuilder(home="dram")
    builder.tensor("x", source)
    if permutation is None:
        builder.add("relayout", ("x",), out, name="y")
    else:
        builder.transpose("x", out, permutation, name="y")
    return builder.graph()


@pytest.fixture
def _only_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let moves go in words, whatever other ways take."""
    found = tuple(way for way in ways.WAYS if way.name == WORDS)
    monkeypatch.setattr(ways, "WAYS", found)
    monkeypatch.setattr(moves, "_cycles", lambda *_: 1)


@pytest.mark.usefixtures("_only_words")
@pytest.mark.parametrize(
    "graph",
    [
        move("s8[96,256]", "s8[96,256]{0,1}"),
        # a word's elements are neither first nor last in the result
        move("u8[24,8,16,32]", "u8[8,32,16,24]", (1, 3, 2, 0)),
        # the source is in tiles: its minor-most digit counts four rows
        move("u8[64,256]{1,0:T(8,128)(4,1)}", "u8[64,256]"),
        # several tiles, with rows of a number that is no power of two
        move("s8[100,1024]", "s8[100,1024]{0,1}"),
    ],
)
def test_all_elements_arrive_on_both_engines(graph: Graph) -> None:
    compiled, inputs, outputs = run(graph, load_chip(CHIPS / "neuroncore_v3.toml"))
    assert any(WORDS in choice for choice in compiled.layers.choices)
    bits = [values.view(f"u{values.itemsize}") for values in (inputs["x"], outputs["y"])]
    same = graph.operations[0].kind == "relayout"
    np.testing.assert_array_equal(bits[1], bits[0] if same else moved(graph, bits[0]))


def test_bytes_need_no_cast_and_a_quarter_of_the_turns() -> None:
    """64 turns of words; of single bytes there were 256, and it took 78,449 cycles."""
    graph = move("u8[16,16,128,128]{0,3,2,1}", "u8[128,16,16,128]", (3, 1, 0, 2))
    result = systolic.run(graph, "neuroncore_v4", values=False)
    assert any(WORDS in choice for choice in result.compiled.layers.choices)
    assert result.cycles == 53_508
    work = result.compiled.program.instructions
    assert sum(isinstance(each, PassThrough) for each in work) == 64
    copies = [each for each in work if isinstance(each, Copy)]
    assert {copy.target.dtype for copy in copies} == {"f32", "u8"}


def test_a_word_stays_on_the_address_and_all_else_lies_at_multiples_of_words() -> None:
    chip = load_chip(CHIPS / "neuroncore_v3.toml")
    planner = Planner(chip, Options(), alone=True)
    words = words_turned(chip, "s8")
    assert words is not None
    assert words.elements == 4
    parts = move_parts(Shape.parse("s8[64,96]"), Shape.parse("s8[64,96]{0,1}"), (0, 1))
    assert parts is not None
    plans = list(on_words(planner, parts[0].move))
    assert plans
    for plan in plans:
        word = words.word(plan)
        assert word is not None
        assert word in plan.cols_in
        assert word in plan.cols_out
        assert plan.move.before.steps[word] == 1
        assert plan.move.sizes[word] == 4
    odd = move_parts(Shape.parse("s8[64,98]"), Shape.parse("s8[64,98]{0,1}"), (0, 1))
    assert odd is not None
    assert not list(on_words(planner, odd[0].move))  # 98 bytes are no whole words


def test_elements_that_the_array_takes_or_does_not_pass_on_have_no_words() -> None:
    chip = load_chip(CHIPS / "neuroncore_v3.toml")
    array = chip.pe_array.model_copy(update={"pass_through": {}})
    assert words_turned(chip.model_copy(update={"pe_array": array}), "s8") is None
    assert words_turned(chip, "f32") is None
    assert words_turned(chip, "bf16") is None
