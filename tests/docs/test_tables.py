"""Are the figures in the tables and sentences of docs/ what a run gives today?

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
LAYOUTS = "docs/layouts.md"
RESULTS = "docs/results/networks.md"
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


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


# -- array or DRAM --------------------------------------------------------------------------------


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
    """A single column or row, however long, and tiny matrices, up to 16 x 2, are lost."""
    pe, dma = (cycles(VERSUS, FROM_DRAM, f"workload.shape=f32[{shape}]", v) for v in (PE, DMA))
    assert (pe < dma) is wins


RATES = {1: "1.50x at 1", 13: "10.0x at 13", 53: "34x at 53", 820: "130x at 820"}


def test_what_the_run_file_says_of_narrow_matrices_and_of_bandwidth() -> None:
    said = " ".join(text_of(f"configs/runs/{VERSUS}.toml").replace("#", " ").split())
    for size in ("24 x 1", "128 x 1", "4096 x 1", "4096 x 2", "4096 x 4"):
        work = (FROM_DRAM, f"workload.shape=f32[{size.replace(' x ', ',')}]")
        ratio = cycles(VERSUS, *work, DMA) / cycles(VERSUS, *work, PE)
        assert f"{size}: {ratio_text(ratio)}" in said
    for rate, words in RATES.items():
        work = (FROM_DRAM, "workload.shape=f32[512,512]", f"chip.dram.bytes_per_cycle={rate}")
        ratio = cycles(VERSUS, *work, DMA) / cycles(VERSUS, *work, PE)
        assert words == f"{ratio_text(ratio)} at {rate}"
        assert words in said


# -- networks -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_what_networks_take(name: str) -> None:
    """The cycles are pinned; multiply-adds by the shapes, and their share of the array's."""
    config = load_run(ROOT / "configs" / "networks" / f"{name}.toml")
    pins = tomllib.loads((ROOT / "configs" / "pinned_cycles.toml").read_text(encoding="utf-8"))
    taken, useful = pins[f"networks/{name}"]["cycles"], sum(wanted_products(config.graph).values())
    share = useful / (config.chip.pe_array.rows * config.chip.pe_array.cols * taken)
    cells = row(RESULTS, f"`{name}`", 6)
    assert cells[1:4] == [f"{useful:,}", f"{taken:,}", f"{100 * share:.1f} %"]


# -- layouts --------------------------------------------------------------------------------------


PACKED = ("s8[1024,1024]{1,0}", "s4[1024,1024]{1,0:E(4)}", "u2[1024,1024]{1,0:E(2)}",
          "pred[1024,1024]{1,0:E(1)}")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shape", PACKED)
def test_what_packed_elements_cost(shape: str) -> None:
    of = (f"workload.shape={shape}", f"workload.out={shape}")
    taken = [cycles("transpose_packed", home, *of) for home in (FROM_DRAM, ON_CHIP)]
    assert row(LAYOUTS, f"`{shape}`", 3) == [f"{each:,}" for each in taken]


@pytest.mark.parametrize(
    ("source", "tiles"), [("f32[4096,4096]", "T(8,128)"), ("bf16[4096,4096]", "T(8,128)(2,1)")]
)
def test_runs_of_a_copy(source: str, tiles: str) -> None:
    plan = relayout(Shape.parse(source), Shape.parse(f"{source}{{1,0:{tiles}}}"))
    runs = plan.run_count
    shown = row(LAYOUTS, f"`{source}` to `{tiles}`", 3)
    assert shown == [f"{runs:,}".replace(",", " "), f"{4096 * 4096 / runs:.1f}"]
