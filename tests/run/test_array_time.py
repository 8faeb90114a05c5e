"""Where the array's time goes: useful and lost cycles are all there are, worked out by hand too."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import systolic
from support.chips import ideal_chip
from support.lane_graphs import grow, random_chip, start
from support.random_works import random_clocked_chip
from support.refusals import NO_ROOM
from support.tiers import quick_first
from systolic.compiler import Options
from systolic.config import load_run
from systolic.errors import SystolicError
from systolic.run.array_time import LabelTimes
from systolic.shipped import CONFIGS
from systolic.workload import GraphBuilder


def check(result) -> None:
    """Useful and lost cycles of each operation, and of the run, are its cycles."""
    summary, array = result.summary, result.chip.pe_array
    pes = array.rows * array.cols
    for each in (*summary["operations"], {**summary, "multiply_adds": _useful(summary)}):
        useful = each["multiply_adds"] // pes
        assert useful + sum(each["lost"].values()) == each["cycles"], each
        assert all(cycles > 0 for cycles in each["lost"].values()), each
        assert each["turned_cycles"] <= each["streamed_cycles"]
    for key in ("streamed_cycles", "turned_cycles"):
        assert summary[key] == sum(each[key] for each in summary["operations"])
    labels = summary["units"]["pe_array"]["labels"]
    assert summary["streamed_cycles"] == labels.get("streaming", 0)
    lost = {reason: cycles for reason, cycles in labels.items() if reason != "streaming"}
    assert {reason: summary["lost"].get(reason) for reason in lost} == lost
    assert "other operations" not in summary["lost"]
    several_clocks = len(set(result.chip.queue_periods.values())) > 1
    # Where clocks differ, an operation may take one cycle less than it touches. And a multiply of
    # few vectors keeps the array streaming for `min_vectors`, behind its last sums, with which an
    # operation may end.
    beyond = max(0, array.min_vectors - 1) * max(array.cycles_per_vector.values())
    _check_division(summary, pes)
    for each in summary["operations"]:
        missing = each["turned_cycles"] - each["lost"].get("transposes", 0)
        assert 0 <= missing <= several_clocks + beyond, each


def _check_division(summary, pes: int) -> None:
    """The array is at one operation after another, with what it does and what it waits for."""
    operations = summary["operations"]
    divided = Counter[str]()
    for each in operations:
        array = each["array"]
        assert array["utilisation"] * pes * array["cycles"] == pytest.approx(
            each["multiply_adds"] if array["cycles"] else 0
        )
        useful = each["multiply_adds"] // pes if array["cycles"] else 0
        assert useful + sum(array["lost"].values()) == array["cycles"], each
        assert array["lost"].get("other operations", 0) == 0, each
        divided.update(array["lost"])
    taken = sum(each["array"]["cycles"] for each in operations)
    assert taken == (summary["cycles"] if summary["streamed_cycles"] else 0)
    for reason, cycles in summary["lost"].items() if taken else ():
        if reason != "tiles not full":  # useful cycles of each operation are rounded down
            assert divided[reason] == cycles, reason


def _useful(summary) -> int:
    return sum(each["multiply_adds"] for each in summary["operations"])


@pytest.mark.parametrize("name", ["networks/digits_mlp", "runs/matmul_chain"])
@pytest.mark.parametrize("chip", ["ideal_128x128", "multi_clock_128x128"])
def test_shipped_runs(name, chip):
    check(systolic.run(load_run(CONFIGS / f"{name}.toml", [f"chip={chip}"]), values=False))


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_random_graphs(seed):
    rng = Random(seed)
    builder = GraphBuilder(rng.choice(["state_buffer", "dram"]))
    now = start(rng, builder)
    for number in range(rng.randint(1, 4)):
        now = grow(rng, builder, now, number)
    chip = random_chip(rng) if seed % 2 else random_clocked_chip(rng)
    try:
        result = systolic.run(builder.graph(), chip, values=False)
    except SystolicError as error:
        if not any(text in str(error) for text in (*NO_ROOM, "no engine of")):
            raise
        return
    check(result)


@pytest.mark.parametrize("identity", ["stored", "made"])
def test_a_product_and_its_turn_by_hand(identity):
    """x [4, 8] has K along the address: two tiles [4, 4] are turned, by 4 identity vectors each.

    Then 4 vectors go through each of two tiles of w [8, 2], which fill 2 of 4 columns: of the 8
    cycles 4 x 8 x 2 / 16 = 4 are useful.
    """
    builder = GraphBuilder("state_buffer")
    x, w = builder.tensor("x", "f32[4,8]"), builder.tensor("w", "f32[8,2]")
    s = builder.matmul(x, w, "f32[4,2]{0,1}", name="s")
    builder.add("activation", (s,), "f32[4,2]{0,1}", function="ramp", name="y")
    options = Options(identity=identity, via="pe")
    result = systolic.run(builder.graph(), ideal_chip(4, 4), options=options, values=False)
    product, ramp = result.summary["operations"]
    assert (product["streamed_cycles"], product["turned_cycles"]) == (8 + 8, 8)
    assert product["lost"]["transposes"] == 8
    assert product["lost"]["tiles not full"] == 4
    assert (ramp["streamed_cycles"], ramp["lost"]) == (0, {})
    assert product["array"]["cycles"] == result.cycles
    assert ramp["array"] == {"cycles": 0, "utilisation": 0.0, "lost": {}}  # the drain does it
    check(result)


def test_the_array_is_at_one_product_after_another_by_hand():
    """h = x w of 2 vectors, y = h v of 2: one tile each, on 4 x 4, on the chip.

    w loads in cycles 0 to 3, vectors in 4 and 5. Their sums are in PSUM in 4 + 3 + 3 and the next
    cycle, seen in 12, copied until 14. Vectors of y follow as soon as they are there.
    """
    builder = GraphBuilder("state_buffer")
    x = builder.tensor("x", "f32[2,4]{0,1}")
    w, v = builder.tensor("w", "f32[4,4]"), builder.tensor("v", "f32[4,4]")
    h = builder.matmul(x, w, "f32[2,4]", name="h")
    builder.matmul(h, v, "f32[2,4]{0,1}", name="y")
    result = systolic.run(builder.graph(), ideal_chip(4, 4), values=False)
    first, second = result.summary["operations"]
    assert first["array"] == {"cycles": 6, "utilisation": 2 / 6, "lost": {"loading": 4}}
    assert second["array"]["cycles"] == result.cycles - 6
    assert second["array"]["utilisation"] == 2 / (result.cycles - 6)
    check(result)


def test_vectors_of_a_cold_array_take_longer_by_hand():
    """One product of 8 vectors in an array that stays cold: each takes 2 cycles, 1 of them lost."""
    builder = GraphBuilder("state_buffer")
    x, w = builder.tensor("x", "f32[8,4]{0,1}"), builder.tensor("w", "f32[4,4]")
    builder.matmul(x, w, "f32[8,4]{0,1}", name="y")
    cold = ideal_chip(4, 4, pe_array={"warm_up_cycles": 1000, "warm_up_factor": 2})
    result = systolic.run(builder.graph(), cold, values=False)
    (product,) = result.summary["operations"]
    assert product["streamed_cycles"] == 8 * 2
    assert product["lost"]["cycles of a vector"] == 8
    check(result)


def test_labels_of_a_window():
    times = LabelTimes([(0, 4, "idle"), (4, 10, "loading"), (10, 12, "idle"), (12, 20, "loading")])
    assert times.within((0, 20)) == {"idle": 6, "loading": 14}
    assert times.within((2, 11)) == {"idle": 3, "loading": 6}
    assert times.within((5, 6)) == {"idle": 0, "loading": 1}
    assert times.within((18, 25)) == {"idle": 0, "loading": 2}
    assert times.within((2, 5), (11, 13)) == {"idle": 3, "loading": 2}
    assert times.within() == {"idle": 0, "loading": 0}
