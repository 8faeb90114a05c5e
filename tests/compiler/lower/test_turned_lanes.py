"""Is the value right? Moves on the chip that the array turns, and several engines copy out.

numpy is the oracle of values. `support.packed.run` has both engines leave the same trace and the
same memory, in memories full of other bits, and the program checker look at every dependency.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import systolic
from compiler.lower.test_packed_relays import transposed
from compiler.lower.test_relays import moved
from compiler.place.test_given_places import pasted
from support.packed import run
from systolic.compiler.cost.turned_lanes import turn_order
from systolic.compiler.cost.word_relays import TurnTicks
from systolic.compiler.lower import relays
from systolic.config import load_chip
from systolic.isa import Copy
from systolic.shipped import CHIPS
from systolic.workload import Graph

V3 = load_chip(CHIPS / "neuroncore_v3.toml")
IMAGES = transposed("bf16[8,28,28,128]", "bf16[28,128,8,28]", (1, 3, 0, 2))


@pytest.mark.parametrize(
    ("graph", "engines"),
    [
        # four lines of 28 pixels, 112 of 128 partitions; NaN and -0.0 among them
        (transposed("bf16[4,28,28,64]", "bf16[28,64,4,28]", (1, 3, 0, 2)), 2),
        # the array takes as long for a turn of float32 as one engine for its result
        (transposed("f32[4,28,28,64]", "f32[28,64,4,28]", (1, 3, 0, 2)), 1),
        # the middle of the result lies within a band
        (transposed("bf16[3,28,28,64]", "bf16[28,64,3,28]", (1, 3, 0, 2)), 2),
    ],
)
def test_all_elements_arrive_on_both_engines(
    graph: Graph, engines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "FEWER", 1e-9)  # whatever other ways take
    monkeypatch.setattr(relays, "LEAST_CYCLES", -1)
    monkeypatch.setattr(relays, "NEAR", 0)
    compiled, inputs, outputs = run(graph, V3)
    assert any(f"that {engines} engine" in choice for choice in compiled.layers.choices)
    copies = [each for each in compiled.program.instructions if isinstance(each, Copy)]
    assert len({copy.engine for copy in copies}) == engines
    bits = [values.view(f"u{values.itemsize}") for values in (inputs["x"], outputs["y"])]
    np.testing.assert_array_equal(bits[1], moved(graph, bits[0]))


def test_two_engines_copy_to_two_banks() -> None:
    """Turned matrix by matrix of 28 rows, and copied out by one engine: 15,298 cycles."""
    result = systolic.run(IMAGES, "neuroncore_v3", values=False)
    assert result.cycles == 9_286
    (choice,) = result.compiled.layers.choices
    found = re.search(r"\(about (\d+) cycles\)", choice)
    assert found is not None
    assert abs(int(found[1]) - result.cycles) <= result.cycles * 0.02


def test_what_the_compiler_chose_gives_the_same_run_when_pasted_back() -> None:
    before, after, places = pasted(IMAGES, V3)
    assert (after, places) == (before, 2)


def test_an_engine_has_the_bank_to_which_it_writes_for_itself() -> None:
    """By hand: two turns in each bank, one in both.

    The array gives a result every 10 ticks, the first in tick 25. One engine takes 20 ticks for it,
    the other 24: results 0 and 2 are copied at once, then 1 and 3, and that in both banks alone.
    """
    ticks = TurnTicks(5, 10, 20, {"scalar": 20, "vector": 24})
    steps, _ = turn_order(V3, ticks, [(0,), (0,), (1,), (1,), (0, 1)])
    assert steps == [(0, "scalar"), (2, "vector"), (1, "scalar"), (3, "vector"), (4, "scalar")]


def test_blocks_of_a_single_matrix_are_copied_out_by_one_engine() -> None:
    """Its bound says so."""
    graph = transposed("bf16[512,512]{1,0:T(128,512)}", "bf16[512,512]{1,0:T(128,512)}", (1, 0))
    result = systolic.run(graph, "neuroncore_v3", values=False)
    assert len({e.engine for e in result.program.instructions if isinstance(e, Copy)}) == 1
