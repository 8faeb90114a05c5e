"""Bounds worked out by hand, and the works whose bounds were once above a legal run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import systolic
from support.axes import told
from support.chips import ideal_chip
from support.refusals import is_for_room
from support.tiers import quick_first
from systolic.bounds import operation_bounds, product_multiply_adds, run_bound
from systolic.config import load_chip, load_run
from systolic.errors import SimulationError, SystolicError
from systolic.hw.formulas.engines import written_bytes
from systolic.hw.formulas.sequencing import behind_fetch
from systolic.hw.formulas.ticks import UnitRate, after, least_end
from systolic.hw.formulas.timing import Bound, dram_bound
from systolic.shipped import CHIPS, chips_of_one_core
from systolic.workload import Graph, GraphBuilder

RUNS = Path(__file__).resolve().parents[2] / "configs" / "runs"
NAMES = chips_of_one_core()
BYTE_A_CYCLE = {"dram": {"bytes_per_cycle": 1, "latency_cycles": 0}, "dma": {"bytes_per_cycle": 1}}


def one(kind: str, source: str, out: str, home: str = "dram", **given: object) -> Graph:
    builder = GraphBuilder(home)  # type: ignore[arg-type]
    builder.add(kind, (builder.tensor("x", source),), out, name="y", **given)
    return builder.graph()


def product(lhs: str, rhs: str, out: str, home: str = "state_buffer") -> Graph:
    builder = GraphBuilder(home)  # type: ignore[arg-type]
    builder.matmul(builder.tensor("x", lhs), builder.tensor("w", rhs), out, name="y")
    return builder.graph()


def convolution(source: str, weights: str, out: str, **given: object) -> Graph:
    builder = GraphBuilder("dram")
    names = builder.tensor("x", source), builder.tensor("w", weights)
    builder.add("conv2d", names, out, name="y", **given)
    return builder.graph()


def test_times_of_clocks_are_not_added_as_cycles() -> None:
    chip = ideal_chip(4, 4, clock={"core": 1000, "fast": 3000}, dma={"clock": "fast"})
    assert after(chip, 4, "pe_array", 1) == 9  # edges of 3 ticks: from 6 on
    assert after(chip, 4, "dma", 1) == 5
    assert least_end(0, 10, [UnitRate(3, 1, 1), UnitRate(1, 1, 1)]) == 8
    assert least_end(4, 2, [UnitRate(3, 1, 1)]) == 12  # cycles from 6 and from 9 on


@pytest.mark.parametrize(
    ("graph", "read", "written"),
    [
        (one("slice", "f32[64,4]", "f32[2,4]", start=(0, 0), stop=(2, 4)), 32, 32),
        (one("slice", "f32[64,4]", "f32[32,4]", start=(0, 0), stop=(64, 4), step=(2, 1)), 512, 512),
        (one("pool", "f32[1,8,8,2]", "f32[1,2,2,2]", reduction="max", window=(1, 1),
             stride=(4, 4)), 32, 32),
        (one("causal_mask", "f32[8,8]", "f32[8,8]", offset=-100), 0, 256),
        (one("causal_mask", "f32[8,8]", "f32[8,8]"), 36 * 4, 256),
        (one("embedding", "f32[64,4]", "f32[3,4]", indices=(5, 5, 9)), 32, 48),
        (convolution("f32[1,8,8,2]", "f32[1,1,2,3]", "f32[1,2,2,3]", stride=(4, 4)), 32 + 24, 48),
        (convolution("f32[1,1,1,2]", "f32[3,3,2,3]", "f32[1,1,1,3]", padding=(1, 1, 1, 1)),
         8 + 24, 12),
    ],
)  # fmt: skip
def test_only_bytes_that_are_needed_count(graph: Graph, read: int, written: int) -> None:
    """At a byte a cycle of DRAM and of the one DMA engine: as in `dram_bound`."""
    chip = ideal_chip(4, 4, **BYTE_A_CYCLE)
    found = run_bound(graph, chip).ticks
    assert found >= dram_bound(chip, read + written, min(read, written)).ticks
    assert found <= dram_bound(chip, read + written, min(read, written)).ticks + 20


def test_a_copy_within_dram_passes_an_engine_once() -> None:
    slow = ideal_chip(4, 4, dram={"bytes_per_cycle": 64}, dma={"bytes_per_cycle": 1})
    graph = one("relayout", "f32[8,8]", "f32[8,8]{0,1}")
    assert dram_bound(slow, 512, 256).ticks == run_bound(graph, slow).ticks < 512


def test_multiply_adds_fill_the_array() -> None:
    """64 x 64 x 64 on 16 x 16: 1,024 vectors, and 1,008 if the engines multiply beside it."""
    chip = ideal_chip(16, 16)
    found = run_bound(product("f32[64,64]{0,1}", "f32[64,64]", "f32[64,64]"), chip)
    engines = 2 * 16  # a multiply-add in each lane of two engines
    assert 64**3 // (16 * 16 + engines) < found.cycles < 64**3 // (16 * 16)
    assert found.why == "multiply-adds of pe_array"


def test_few_rows_of_the_contraction_may_share_the_array() -> None:
    """Block-diagonal weights multiply four groups of 4 rows at once on 16 rows."""
    chip = ideal_chip(16, 16)
    found = run_bound(product("f32[1024,4]{0,1}", "f32[4,4]", "f32[1024,4]"), chip)
    assert found.cycles < 1024 // 4 + 128


def test_what_is_on_padding_need_not_be_multiplied() -> None:
    graph = convolution("f32[1,1,1,2]", "f32[3,3,2,3]", "f32[1,1,1,3]", padding=(1, 1, 1, 1))
    assert product_multiply_adds(graph) == {"y": 9 * 2 * 3}
    assert run_bound(graph, ideal_chip(4, 4)).cycles < 30


def test_an_addition_on_the_chip_takes_lanes() -> None:
    """Four lanes of two engines write 4 bytes in a cycle, each over two cycles later."""
    builder = GraphBuilder("state_buffer")
    builder.binary(builder.tensor("x", "f32[4,80]"), builder.tensor("z", "f32[4,80]"),
                   operator="add", out="f32[4,80]", name="y")  # fmt: skip
    found = run_bound(builder.graph(), ideal_chip(4, 4))
    assert (found.why, 40 <= found.cycles <= 42) == ("lanes that calculate", True)


def test_a_rate_writes_elements_of_its_widest_type() -> None:
    """In each of 4 lanes `v` writes 4 elements of at most 2 bytes in a cycle, or 1 of 4 bytes."""
    rates = [{"types": ("s8", "bf16"), "elements": 4}]
    v = {"does": ("copy", "activate"), "reads": ("state_buffer", "result_buffer"),
         "writes": ("state_buffer",), "rates": rates}  # fmt: skip
    chip = ideal_chip(4, 4, engines={"v": v}, state_buffer={"port_bytes": 64})
    assert written_bytes(chip.engine("v"), chip.port_width_bytes) == 8


def test_the_fetch_of_the_first_instruction_comes_before_all_else() -> None:
    """58 bytes, 8 a cycle, and 3 cycles of latency: 8 + 3 cycles of a clock as fast as the rest."""
    fetch = {"bytes_per_cycle": 8, "latency_cycles": 3, "buffer_instructions": 4}
    work = Bound(40, "work")
    assert behind_fetch(ideal_chip(4, 4), work, 58).ticks == 40
    assert behind_fetch(ideal_chip(4, 4, fetch=fetch), work, 58).ticks == 40 + 8 + 3


def test_a_move_that_may_stay_has_no_bound() -> None:
    (found,) = operation_bounds(one("reshape", "f32[6,10,7]", "f32[60,7]", "state_buffer"),
                                ideal_chip(4, 4))  # fmt: skip
    assert (found.bound.ticks, found.bound.why) == (0, "nothing need be busy")


def test_what_stays_on_the_chip_between_products_is_no_traffic() -> None:
    """At a byte per cycle: x (8 bytes) and w1 (16) for the first product, w2 (16) and y (8) for
    the second. By the graph's default h lives in DRAM, but only the second product needs it.
    """
    builder = GraphBuilder("dram")
    names = {"x": "f32[1,2]", "w1": "f32[2,2]", "w2": "f32[2,2]"}
    x, w1, w2 = (builder.tensor(name, shape) for name, shape in names.items())
    h = builder.matmul(x, w1, "f32[1,2]", name="h")
    builder.matmul(h, w2, "f32[1,2]", name="y")
    chip = ideal_chip(2, 2, dram={"bytes_per_cycle": 1, "latency_cycles": 0})
    least = dram_bound(chip, 16 + 8).ticks
    for operation in operation_bounds(builder.graph(), chip):
        assert least <= operation.bound.ticks < least + 8 * chip.period("dma")


def test_a_run_shorter_than_its_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_run(RUNS / "transpose_fig3.toml")
    longer = type(run_bound(config.graph, config.chip))(20, "a reason", 1)
    monkeypatch.setattr("systolic.run.execute.run_bound", lambda *_: longer)
    with pytest.raises(SimulationError, match=r"took 19 cycles \(19 ticks\), less than its lower "
                       r"bound 20 \(20 ticks, a reason\): one of them is wrong"):  # fmt: skip
        systolic.run(config, values=False)


@pytest.mark.parametrize(
    ("kind", "source", "result", "homes", "axes"),
    [
        ("reshape", "f32[6,4]{0,1}", "f32[24]", ("dram", "dram"), ()),
        ("relayout", "f32[6,4]", "f32[6,4]{0,1}", ("dram", "state_buffer"), ()),
        ("transpose", "f32[6,4]", "f32[4,6]", ("state_buffer", "state_buffer"), (1, 0)),
        ("cast", "f32[6,4]", "bf16[6,4]{0,1}", ("state_buffer", "dram"), ()),
    ],
)
def test_a_lone_operation_is_under_way_for_the_whole_run(
    kind: str, source: str, result: str, homes: tuple[str, str], axes: tuple[int, ...]
) -> None:
    builder = GraphBuilder(homes[1])  # type: ignore[arg-type]
    builder.add(kind, (builder.tensor("x", source, homes[0]),), result, name="y", **told(axes))
    graph = builder.graph()
    (op,) = graph.operations
    run = systolic.run(Graph(graph.tensors, (replace(op, name=kind),)), ideal_chip(4, 4))
    (record,) = run.summary["operations"]
    assert record["cycles"] == run.trace.cycles() >= record["bound"]["cycles"]


# A hunt over slices, strides, windows and masks on shipped chips


def _slice(rng: Random) -> Graph:
    rows, cols = rng.choice([8, 40, 200]), rng.choice([4, 16, 100])
    first, step = rng.randrange(rows), rng.choice([1, 1, 2, 3])
    stop = rng.randint(first + 1, rows)
    out = f"f32[{-(-(stop - first) // step)},{cols}]"
    given = {"start": (first, 0), "stop": (stop, cols), "step": (step, 1)}
    return one("slice", f"f32[{rows},{cols}]", out, rng.choice(["dram", "state_buffer"]), **given)


def _window(rng: Random) -> Graph:
    side, channels, size = rng.choice([4, 8, 14]), rng.choice([1, 3, 16]), rng.choice([1, 1, 3])
    stride, rim = rng.choice([1, 2, 4]), rng.choice([0, 1])
    made = (side + 2 * rim - size) // stride + 1
    given = {"stride": (stride, stride), "padding": (rim,) * 4}
    source = f"f32[1,{side},{side},{channels}]"
    if rng.random() < 0.5:
        out = f"f32[1,{made},{made},{channels}]"
        return one("pool", source, out, reduction="max", window=(size, size), **given)
    groups = rng.choice([1, channels])
    filters = groups * rng.choice([1, 4])
    weights = f"f32[{size},{size},{channels // groups},{filters}]"
    return convolution(source, weights, f"f32[1,{made},{made},{filters}]", groups=groups, **given)


def _mask(rng: Random) -> Graph:
    side, offset = rng.choice([4, 20, 130]), rng.choice([-1000, -3, 0, 5, 1000])
    builder = GraphBuilder(rng.choice(["dram", "state_buffer"]))
    x = builder.tensor("x", f"f32[{side},{side}]")
    if rng.random() < 0.5:
        x = builder.matmul(x, builder.tensor("w", f"f32[{side},{side}]"), f"f32[{side},{side}]")
    builder.causal_mask(x, out=f"f32[{side},{side}]", offset=offset)
    return builder.graph()


def _thin(rng: Random) -> Graph:
    M, K, N = (rng.choice([1, 2, 5, 33, 130]) for _ in range(3))
    lhs, rhs = (rng.choice(["", "{0,1}"]) for _ in range(2))
    home = rng.choice(["dram", "state_buffer"])
    return product(f"f32[{M},{K}]{lhs}", f"f32[{K},{N}]{rhs}", f"f32[{M},{N}]", home)


KINDS: tuple[Callable[[Random], Graph], ...] = (_slice, _window, _mask, _thin)


@pytest.mark.parametrize("part", quick_first(range(40), 4))
def test_no_slice_window_mask_or_thin_product_is_below_its_bound(part: int) -> None:
    ran = 0
    for seed in range(20 * part, 20 * (part + 1)):
        rng = Random(seed)
        graph, chip = rng.choice(KINDS)(rng), load_chip(CHIPS / f"{rng.choice(NAMES)}.toml")
        try:
            run = systolic.run(graph, chip)
        except SystolicError as error:
            assert is_for_room(error) or "cannot take" in str(error), (seed, error)  # noqa: PT017
            continue
        ran += 1
        assert run.trace.ticks >= run_bound(graph, chip).ticks, seed
    assert ran > 10


@pytest.mark.parametrize("stop", [(8, 1024), (1, 1024)])
def test_a_few_rows_of_a_large_tensor(stop: tuple[int, int]) -> None:
    shape = ",".join(map(str, stop))
    graph = one("slice", "f32[4096,1024]", f"f32[{shape}]", start=(0, 0), stop=stop)
    assert (
        systolic.run(graph, "ideal_128x128").cycles
        >= run_bound(graph, load_chip(CHIPS / "ideal_128x128.toml")).cycles
    )
