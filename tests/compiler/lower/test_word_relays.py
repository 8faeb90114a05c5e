"""Is the value right? Moves on the chip in words that the array turns twice.

numpy is the oracle of values. `support.packed.run` has both engines leave the same trace and the
same memory, in memories full of other bits, and the program checker look at every dependency.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import systolic
from compiler.lower.test_digit_moves import reshaped
from compiler.lower.test_relays import moved, relaid
from support.packed import run
from systolic.compiler.cost import word_order
from systolic.compiler.cost.word_relays import WordTimes, word_type
from systolic.compiler.ir.windows import DigitWindow, WordWindow
from systolic.compiler.lower import relays, word_relays
from systolic.config import load_chip
from systolic.isa import Access, Buffer
from systolic.shipped import CHIPS
from systolic.spans import Span
from systolic.workload import Graph

HEADS = "u8[4,12,128,128]{3,2,1,0:T(8,128)(4,1)}", "u8[4,12,128,128]"
MASKS = "pred[2048,1024]{0,1:T(8,128)(4,1)}", "pred[256,8,1024]{1,0,2}"

pytestmark = pytest.mark.usefixtures("rows_end_with_dimensions")


@pytest.mark.parametrize(
    ("graph", "sent"),
    [
        # all partitions are in use: no part of the source goes beside another one
        (relaid("s8[512,256]{1,0:T(8,128)(4,1)}", "s8[512,256]"), 0),
        # 32 partitions hold four rows each; quarters of the heads go to others first
        (relaid("u8[4,8,128,64]{3,2,1,0:T(8,128)(4,1)}", "u8[4,8,128,64]"), 0),
        # words of two elements, among them NaN and -0.0; DMA sends one of eight bands
        (relaid("bf16[128,1024]{1,0:T(8,128)(2,1)}", "bf16[128,1024]"), 1),
        # eight of the minor-most dimension of the result count rows of the source
        (reshaped("s8[512,256]{0,1:T(8,128)(4,1)}", "s8[64,8,256]{1,0,2}"), 0),
    ],
)
def test_all_elements_arrive_on_both_engines(
    graph: Graph, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "FEWER", 1e-9)  # whatever other ways take
    monkeypatch.setattr(relays, "LEAST_CYCLES", -1)
    monkeypatch.setattr(relays, "NEAR", 0)
    monkeypatch.setattr(relays, "cheapest_relay", lambda *_, **__: None)
    compiled, inputs, outputs = run(graph, load_chip(CHIPS / "neuroncore_v3.toml"))
    assert any("in words" in choice for choice in compiled.layers.choices)
    assert compiled.program.count().get("DmaCopy", 0) == sent
    bits = [values.view(f"u{values.itemsize}") for values in (inputs["x"], outputs["y"])]
    same = graph.operations[0].kind == "relayout"
    np.testing.assert_array_equal(bits[1], bits[0] if same else moved(graph, bits[0]))


@pytest.mark.parametrize(
    ("graph", "cycles"),
    [(relaid(*HEADS), 13_372), (reshaped(*MASKS), 21_168)],
    ids=["heads", "masks"],
)
def test_engines_array_and_dma_work_side_by_side(graph: Graph, cycles: int) -> None:
    """One leg after another took 23,705 and 37,388; the estimate is no more than 2 % off."""
    result = systolic.run(graph, "neuroncore_v3", values=False)
    assert result.cycles == cycles
    (choice,) = result.compiled.layers.choices
    found = re.search(r"in words .* \(about (\d+) cycles\)", choice)
    assert found is not None
    assert abs(int(found[1]) - cycles) <= cycles * 0.02


def test_engines_at_one_port_keep_the_order_of_the_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three engines read from two banks: one that came too soon would hold up another one."""
    every = frozenset({"vector", "scalar", "gpsimd"})
    shares = word_order.EngineShares(frozenset(), every, frozenset({"scalar"}), late=False)
    monkeypatch.setattr(word_order, "_shares", lambda _: [shares])
    monkeypatch.setattr(word_order, "_sent", lambda *_: [frozenset()])
    result = systolic.run(reshaped(*MASKS), "neuroncore_v3", values=False)
    (choice,) = result.compiled.layers.choices
    found = re.search(r"in words .* \(about (\d+) cycles\)", choice)
    assert found is not None
    assert abs(int(found[1]) - result.cycles) <= result.cycles * 0.02


def test_an_order_is_given_up_only_where_it_takes_more_than_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What balance and steps so far take at least is never more than what all steps take."""
    seen = list[WordTimes]()
    monkeypatch.setattr(word_relays, "word_plan", lambda _, times, __: seen.append(times))
    systolic.run(relaid(*HEADS), "neuroncore_v3", values=False)
    chip = load_chip(CHIPS / "neuroncore_v3.toml")
    period, made = chip.period("pe_array"), 0
    for times in seen:
        shares = [*word_order._shares(times)]
        for trial in word_order._trials(times, shares, lambda _: (0, 1))[::5]:
            order = word_order._Order(chip, times, trial, math.inf)
            plan = order.plan()
            assert plan is not None
            again = word_order._Order(chip, times, trial, order.last).plan()
            assert again == plan
            assert word_order._Order(chip, times, trial, order.last - period).plan() is None
            made += 1
    assert made > 50


def test_only_where_the_array_passes_bits_on() -> None:
    """A product with an identity would lose the sign of a zero, and all but one kind of NaN."""
    chips = {name: load_chip(CHIPS / f"{name}.toml") for name in ("neuroncore_v2", "neuroncore_v3")}
    assert {name: word_type(chip) for name, chip in chips.items()} == {
        "neuroncore_v2": None,
        "neuroncore_v3": "f32",
    }


def test_words_of_a_holder() -> None:
    """Two words of four bytes, eight bytes apart, from byte 16 on."""
    window = WordWindow(4, "f32", DigitWindow("holder", 0, 16, (), ((2, 8),)))
    columns = window.columns(0, 0, Span(0, 2))
    assert columns.tolist() == [16, 17, 18, 19, 24, 25, 26, 27]
    (segment,) = window.segments(0, 0, Span(0, 2))
    elements = Access(Buffer.STATE, "u8", 0, 128, 512 + segment.base, segment.pairs)
    assert window.of(elements) == Access(Buffer.STATE, "f32", 0, 128, 528, ((2, 2),))
