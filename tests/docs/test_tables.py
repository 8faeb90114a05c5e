"""Are the figures in the tables and sentences of README.md and docs/ what a run gives today?

Runs are for times only, so that large work is quick. Runs that still take seconds are slow tests.
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

import pytest

import systolic
from run.test_conservation import wanted_products
from support.documents import ROOT
from systolic.config import load_run
from systolic.layout import Shape, relayout
from systolic.report.summary.wording import ratio_text

NETWORKS = sorted(path.stem for path in (ROOT / "configs" / "networks").glob("*.toml"))
README, LAYOUTS = "README.md", "docs/layouts.md"
VERSUS = "transpose_vs_dram"
PE, DMA = "compile.via=pe", "compile.via=dram"
ON_CHIP, FROM_DRAM = "workload.home=state_buffer", "workload.home=dram"


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def row(page: str, first: str, columns: int) -> list[str]:
    """Return the cells after the first of the row that begins so, of that many cells in all."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        for line in text_of(page).splitlines()
        if line.startswith("| ")
    ]
    (found,) = [cells[1:] for cells in rows if cells[0] == first and len(cells) == columns]
    return found


@cache
def summary(run: str, *overrides: str) -> dict[str, Any]:
    path = ROOT / "configs" / "runs" / f"{run}.toml"
    return systolic.run(load_run(path, ["sweep=[]", *overrides]), values=False).summary


def cycles(run: str, *overrides: str) -> int:
    return int(summary(run, *overrides)["cycles"])


def above(run: str) -> list[str]:
    """Return cycles, bound and the distance between them, as tables write them."""
    taken, bound = cycles(run), summary(run)["bound"]["cycles"]
    return [f"{taken:,}", f"{bound:,}", f"{100 * (taken - bound) / bound:.1f} %"]


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


# -- array or DRAM --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "home", "shape"),
    [
        ("4 x 4, on chip", ON_CHIP, "f32[4,4]"),
        ("128 x 128, on chip", ON_CHIP, "f32[128,128]"),
        slow("512 x 512, on chip", ON_CHIP, "f32[512,512]"),
        ("4 x 4, from DRAM to DRAM", FROM_DRAM, "f32[4,4]"),
        ("8 x 8, from DRAM to DRAM", FROM_DRAM, "f32[8,8]"),
        ("24 x 1, from DRAM to DRAM", FROM_DRAM, "f32[24,1]"),
        ("128 x 1, from DRAM to DRAM", FROM_DRAM, "f32[128,1]"),
        ("4096 x 1, from DRAM to DRAM", FROM_DRAM, "f32[4096,1]"),
        ("1 x 4096, from DRAM to DRAM", FROM_DRAM, "f32[1,4096]"),
        ("4096 x 2, from DRAM to DRAM", FROM_DRAM, "f32[4096,2]"),
        ("512 x 512, from DRAM to DRAM", FROM_DRAM, "f32[512,512]"),
    ],
)
def test_array_or_dram(label: str, home: str, shape: str) -> None:
    pe, dma = (cycles(VERSUS, home, f"workload.shape={shape}", via) for via in (PE, DMA))
    ratio = f"{dma / pe:.0f}x" if dma >= 2 * pe else f"{dma / pe:.2f}x"
    assert row(README, label, 4) == [f"{pe:,}", f"{dma:,}", ratio]


@pytest.mark.parametrize(
    ("shape", "wins"),
    [
        ("16,2", False),
        ("5,4", False),
        ("1,20", False),
        ("1,24", False),
        ("1,300", False),
        ("128,1", False),
        ("300,1", False),
        ("32,2", True),
        ("5,5", True),
        ("128,2", True),
        ("8,4", True),
    ],
)
def test_where_the_array_stops_winning(shape: str, wins: bool) -> None:
    """README: a single column or row, however long, and tiny matrices, up to 16 x 2."""
    pe, dma = (cycles(VERSUS, FROM_DRAM, f"workload.shape=f32[{shape}]", v) for v in (PE, DMA))
    assert (pe < dma) is wins


RATES = {1: "1.50x at 1 byte", 4: "3.7x at 4", 13: "10.0x at 13", 53: "34x at 53",
         205: "88x at 205", 820: "130x at 820"}  # fmt: skip


@pytest.mark.parametrize("rate", RATES)
def test_what_bandwidth_does_from_dram_to_dram(rate: int) -> None:
    """README and the run file: at 512 x 512 the advantage grows with bandwidth."""
    work = (FROM_DRAM, "workload.shape=f32[512,512]", f"chip.dram.bytes_per_cycle={rate}")
    ratio = cycles(VERSUS, *work, DMA) / cycles(VERSUS, *work, PE)
    assert RATES[rate].startswith(f"{ratio_text(ratio)} at {rate}")
    assert RATES[rate] in " ".join(text_of(README).split())


def test_what_the_run_file_says_of_narrow_matrices_and_of_bandwidth() -> None:
    said = " ".join(text_of(f"configs/runs/{VERSUS}.toml").replace("#", " ").split())
    for size in ("24 x 1", "128 x 1", "4096 x 1", "4096 x 2", "4096 x 4"):
        work = (FROM_DRAM, f"workload.shape=f32[{size.replace(' x ', ',')}]")
        ratio = cycles(VERSUS, *work, DMA) / cycles(VERSUS, *work, PE)
        assert f"{size}: {ratio_text(ratio)}" in said
    for rate in (1, 13, 53, 820):
        assert RATES[rate].removesuffix(" byte") in said


def test_bandwidth_and_latency_hardly_matter_on_the_chip() -> None:
    """README gives the ranges; the sweep of configs/runs/transpose_vs_dram.toml has these ends."""
    rates = [cycles(VERSUS, DMA, f"chip.dram.bytes_per_cycle={rate}") for rate in (13, 820)]
    latencies = [cycles(VERSUS, DMA, f"chip.dram.latency_cycles={n}") for n in (0, 420)]
    assert max(rates) / min(rates) < 1.04
    assert max(latencies) / min(latencies) < 1.04
    assert len({cycles(VERSUS, PE, f"chip.dram.bytes_per_cycle={rate}") for rate in (4, 820)}) == 1
    assert "by less than 4 %" in " ".join(text_of(README).split())


def test_latency_hardly_matters_from_dram_to_dram() -> None:
    work = (FROM_DRAM, "workload.shape=f32[512,512]")
    ratios = [
        cycles(VERSUS, *work, latency, DMA) / cycles(VERSUS, *work, latency, PE)
        for latency in ("chip.dram.latency_cycles=0", "chip.dram.latency_cycles=420")
    ]
    assert [f"{ratio:.0f}x" for ratio in ratios] == ["34x", "33x"]
    assert "latency from 0 to 420 cycles: 34x to 33x" in " ".join(text_of(README).split())


# -- how good schedules are -----------------------------------------------------------------------


PRODUCTS = {
    "1024 x 1024 x 1024, operands on chip": "matmul_1024_onchip",
    "the same from DRAM to DRAM": "matmul_1024_dram",
    "the same with both operands row by row, lhs turned on the way": "matmul_1024_row_major",
    "64 x 4096 x 4096, on chip": "matmul_skinny",
    "64 x 4096 x 64, on chip": "matmul_deep",
    "two products in a row, 256 x 512 x 384 and 256 x 384 x 256, DRAM to DRAM": "matmul_chain",
}


@pytest.mark.parametrize("label", PRODUCTS)
def test_products(label: str) -> None:
    run = PRODUCTS[label]
    assert row(README, label, 4) == above(run)


# -- networks -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_what_networks_take(name: str) -> None:
    """The cycles are pinned; multiply-adds by the shapes, and their share of the array's."""
    config = load_run(ROOT / "configs" / "networks" / f"{name}.toml")
    pins = tomllib.loads((ROOT / "configs" / "pinned_cycles.toml").read_text(encoding="utf-8"))
    taken, useful = pins[f"networks/{name}"]["cycles"], sum(wanted_products(config.graph).values())
    share = useful / (config.chip.pe_array.rows * config.chip.pe_array.cols * taken)
    cells = row(README, f"`{name}`", 5)
    assert cells[1:] == [f"{useful:,}", f"{taken:,}", f"{100 * share:.1f} %"]


# -- layouts --------------------------------------------------------------------------------------


PACKED = ("s8[1024,1024]{1,0}", "s4[1024,1024]{1,0:E(4)}", "u2[1024,1024]{1,0:E(2)}",
          "pred[1024,1024]{1,0:E(1)}")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shape", PACKED)
def test_what_packed_elements_cost(shape: str) -> None:
    of = (f"workload.shape={shape}", f"workload.out={shape}")
    taken = [cycles("transpose_packed", home, *of) for home in (FROM_DRAM, ON_CHIP)]
    assert row(LAYOUTS, f"`{shape}`", 3) == [f"{each:,}" for each in taken]


DDR4 = {
    "`{1,0}`": "transpose_ddr4_rows",
    "`{1,0:T(8,128)}`": "transpose_ddr4_tiles",
    "`{0,1}`": "transpose_ddr4_columns",
}


def by_dma(run: str) -> tuple[str, str, str]:
    found = summary(run, DMA)
    dram = found["transfers"]["dram"]
    hits = 100 * dram["hits"] / (dram["hits"] + dram["opened"] + dram["conflicts"])
    return f"{found['cycles']:,}", f"{dram['bursts']:,}", f"{hits:.0f} %"


@pytest.mark.parametrize("layout", DDR4)
def test_what_a_layout_costs(layout: str) -> None:
    run = DDR4[layout]
    moved = summary(run)["transfers"]
    shown = row(LAYOUTS, layout, 8)
    assert shown[0] == f"`{run}`"
    bursts, conflicts = moved["dram"]["bursts"], moved["dram"]["conflicts"]
    bound = summary(run)["bound"]["cycles"]
    above = f"{100 * (cycles(run) / bound - 1):.0f} %"
    counts = [f"{count:,}" for count in (bursts, conflicts, cycles(run), bound)]
    assert shown[2:] == [*counts, above]


@pytest.mark.parametrize("layout", DDR4)
def test_what_a_layout_costs_dma_alone(layout: str) -> None:
    taken, bursts, hits = by_dma(DDR4[layout])
    assert row(LAYOUTS, layout, 5)[1:] == [bursts, hits, taken]
    first = layout if layout != "`{0,1}`" else "`{0,1}`, the order of the result"
    array = f"{cycles(DDR4[layout]):,}"
    shown = row(README, first, 5)
    assert shown[0].removeprefix("not turned: ") == array
    assert shown[1:] == [taken, bursts, hits]


@pytest.mark.parametrize(
    ("source", "tiles"), [("f32[4096,4096]", "T(8,128)"), ("bf16[4096,4096]", "T(8,128)(2,1)")]
)
def test_runs_of_a_copy(source: str, tiles: str) -> None:
    plan = relayout(Shape.parse(source), Shape.parse(f"{source}{{1,0:{tiles}}}"))
    runs = plan.run_count
    shown = row(LAYOUTS, f"`{source}` to `{tiles}`", 3)
    assert shown == [f"{runs:,}".replace(",", " "), f"{4096 * 4096 / runs:.1f}"]
