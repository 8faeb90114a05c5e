"""Who transposes a matrix sooner, the array or DMA? ``python docs/pictures/transpose_map.py``.

Every f32 matrix whose sides are powers of two from 1 to 4096 is transposed both ways, by the sweep
of `configs/runs/transpose_vs_dram.toml` with these sizes: once with source and result on the chip,
once from DRAM to DRAM. Times of both ways go to transpose_map.csv, the map of their ratio to
transpose_map.png, beside this script or in the folder of `--out`. About half a minute.

    python docs/pictures/transpose_map.py [--chip NAME] [--set KEY=VALUE] [--largest 4096]
                                          [--jobs 1] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap, LogNorm

from systolic.config import RunConfig, SweepTable, load_run
from systolic.report.paper import style
from systolic.report.paper.figure_page import FigurePage
from systolic.report.summary.wording import ratio_text
from systolic.sweep.memory import rows_in_order
from systolic.sweep.space import SweepFile

HERE = Path(__file__).parent
RUN = HERE.parents[1] / "configs" / "runs" / "transpose_vs_dram.toml"
NAME = "transpose_map"
LARGEST = 4096
NARROW = 8
"""The longest side that the title calls narrow."""
HOMES = {
    "state_buffer": ("On the chip", "DMA turns it on the way out to DRAM and back"),
    "dram": ("From DRAM to DRAM", "both ways bring it in and out; DMA turns it on the way in"),
}
DMA_WINS, ARRAY_WINS = style.HUE["load"], style.HUE["stream"]
COLOURS = LinearSegmentedColormap.from_list("ways", [DMA_WINS, style.PAPER, ARRAY_WINS])
SIDE, LEFT, GAP, TOP, FOOT, BAR = 5.5, 0.95, 0.85, 1.75, 0.75, 0.16


Point: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cell:
    """One matrix: cycles through the array and by DMA; None where the chip has no room for it."""

    home: str
    rows: int
    columns: int
    array_cycles: int | None
    dma_cycles: int | None

    @property
    def ratio(self) -> float | None:
        """Return how many times as long DMA takes."""
        if self.array_cycles is None or self.dma_cycles is None:
            return None
        return self.dma_cycles / self.array_cycles


# -- measuring ------------------------------------------------------------------------------------


def measure(config: RunConfig, home: str, sides: Sequence[int], jobs: int = 1) -> list[Cell]:
    """Return a cell for each pair of sides, all transposed both ways in that home."""
    sizes = [(rows, columns) for rows in sides for columns in sides]
    sweep = SweepTable(
        name=home,
        vary={
            "workload.home": [home],
            "workload.shape": [f"f32[{rows},{columns}]" for rows, columns in sizes],
            "compile.via": ["pe", "dram"],
        },
    )
    found = rows_in_order(SweepFile(replace(config, sweep=(sweep,)), values=False), jobs=jobs)
    ways = zip(found[::2], found[1::2], strict=True)
    return [
        Cell(home, rows, columns, _cycles(array), _cycles(dma))
        for (rows, columns), (array, dma) in zip(sizes, ways, strict=True)
    ]


def _cycles(row: Any) -> int | None:
    if "error" in row and "no room" not in row["error"]:
        raise SystemExit(f"{row['vary']}: {row['error']}")
    return row.get("cycles")


def write_csv(cells: Sequence[Cell], path: Path) -> None:
    """Write a line for each cell; what the chip has no room for is empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([field.name for field in fields(Cell)])
        table.writerows(asdict(cell).values() for cell in cells)


def read_csv(path: Path) -> list[Cell]:
    """Return the cells of a file that `write_csv` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Cell(home, int(rows), int(columns), *(int(c) if c else None for c in cycles))
            for home, rows, columns, *cycles in list(csv.reader(file))[1:]
        ]


# -- drawing --------------------------------------------------------------------------------------


def finding(cells: Sequence[Cell]) -> str:
    """Return the title: for each home by how much the array wins, or which sizes it loses."""
    parts = []
    for home, (name, _) in HOMES.items():
        ratios = [cell.ratio for cell in cells if cell.home == home and cell.ratio]
        lost = lost_sides(cells, home)
        where = name if not parts else name[0].lower() + name[1:]
        if not lost:
            least, most = ratio_text(min(ratios)), ratio_text(max(ratios))
            parts.append(f"{where} the array beats DMA {least} to {most}")
        elif max(lost) <= NARROW:
            parts.append(f"{where} it loses narrow matrices")
        else:
            parts.append(f"{where} it loses {len(lost)} of {len(ratios)} sizes")
    return "; ".join(parts)


def lost_sides(cells: Sequence[Cell], home: str) -> list[int]:
    """Return the shorter side of every matrix that the array does not turn sooner than DMA."""
    there = [cell for cell in cells if cell.home == home and cell.ratio]
    return [min(cell.rows, cell.columns) for cell in there if (cell.ratio or 0) <= 1]


def draw(cells: Sequence[Cell], path: Path, chip: str) -> None:
    """Draw a map for each home, both with one scale of colours that is white at 1x."""
    page = FigurePage(LEFT + 2 * SIDE + GAP + 1.25, TOP + SIDE + FOOT)
    page.text(0.3, 0.25, finding(cells), fontsize=style.TITLE, weight="bold")
    how_to_read = (
        f"f32 matrices transposed on {chip}: cycles by DMA alone / cycles through the array. "
        "Black line: 1x; on its blue side DMA is sooner. Grey: no room on the chip."
    )
    page.text(0.3, 0.68, how_to_read, color=style.MUTED)
    most = max(max(cell.ratio, 1 / cell.ratio) for cell in cells if cell.ratio)
    norm = LogNorm(1 / most, most)
    for number, (home, (name, note)) in enumerate(HOMES.items()):
        left = LEFT + number * (SIDE + GAP)
        page.text(left, TOP - 0.58, name, fontsize=style.HEADING, weight="bold")
        note += _losses(cells, home)
        page.text(left, TOP - 0.34, note, fontsize=style.SMALL, color=style.MUTED)
        axes = page.axes(left, TOP, SIDE, SIDE)
        mesh = _map(axes, [cell for cell in cells if cell.home == home], norm)
    _scale(page, mesh, most)
    page.save(path)


def _losses(cells: Sequence[Cell], home: str) -> str:
    if not (lost := lost_sides(cells, home)):
        return ""
    return f". {len(lost)} sizes are lost, all with a side of {max(lost)} or less"


def _map(axes: Axes, cells: Sequence[Cell], norm: LogNorm) -> QuadMesh:
    """Draw the cells of one home: columns to the right, rows downward as in a matrix."""
    sides = sorted({cell.rows for cell in cells})
    place = {side: number for number, side in enumerate(sides)}
    grid = [[math.nan] * len(sides) for _ in sides]
    for cell in cells:
        grid[place[cell.rows]][place[cell.columns]] = cell.ratio or math.nan
    axes.set_axis_on()
    axes.set_facecolor(style.HAIR)
    mesh = axes.pcolormesh(grid, norm=norm, cmap=COLOURS, edgecolor=style.PAPER, lw=0.8)
    _frame(axes, sides)
    _numbers(axes, grid)
    _line_of_1x(axes, grid)
    return mesh


def _frame(axes: Axes, sides: Sequence[int]) -> None:
    axes.invert_yaxis()
    middles = [number + 0.5 for number in range(len(sides))]
    axes.set_xticks(middles, [f"{side}" for side in sides])
    axes.set_yticks(middles, [f"{side}" for side in sides])
    axes.tick_params(labelsize=style.SMALL, colors=style.MUTED, length=0)
    axes.set_xlabel("columns", fontsize=style.BODY, color=style.INK)
    axes.set_ylabel("rows", fontsize=style.BODY, color=style.INK)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _numbers(axes: Axes, grid: Sequence[Sequence[float]]) -> None:
    for row, ratios in enumerate(grid):
        for column, ratio in enumerate(ratios):
            if not math.isnan(ratio):
                text = ratio_text(ratio).removesuffix("x")
                axes.text(
                    column + 0.5, row + 0.5, text, ha="center", va="center",
                    fontsize=style.SMALL, color=style.INK,
                )  # fmt: skip


def _line_of_1x(axes: Axes, grid: Sequence[Sequence[float]]) -> None:
    for (x, y), (to_x, to_y) in edges_of_1x(grid):
        axes.plot([x, to_x], [y, to_y], color=style.INK, lw=2.2, solid_capstyle="projecting")


def edges_of_1x(grid: Sequence[Sequence[float]]) -> list[tuple[Point, Point]]:
    """Return the edges between cells above 1 and cells of 1 or less; a NaN has none."""
    cells = {
        (x, y): ratio > 1
        for y, ratios in enumerate(grid)
        for x, ratio in enumerate(ratios)
        if not math.isnan(ratio)
    }
    found: list[tuple[Point, Point]] = []
    for (x, y), wins in cells.items():
        if cells.get((x + 1, y), wins) is not wins:
            found.append(((x + 1, y), (x + 1, y + 1)))
        if cells.get((x, y + 1), wins) is not wins:
            found.append(((x, y + 1), (x + 1, y + 1)))
    return found


def _scale(page: FigurePage, mesh: QuadMesh, most: float) -> None:
    """Draw the scale of colours at the right, with 1x in its middle."""
    left, height = LEFT + 2 * SIDE + GAP + 0.3, 0.7 * SIDE
    axes = page.axes(left, TOP + 0.15 * SIDE, BAR, height)
    axes.set_axis_on()
    bar = page.figure.colorbar(mesh, cax=axes)
    decades = range(-math.floor(math.log10(most)), math.floor(math.log10(most)) + 1)
    bar.set_ticks([10.0**n for n in decades], labels=[f"{10.0**n:g}x" for n in decades])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=style.SMALL, colors=style.MUTED, length=0)
    bar.outline.set_visible(False)
    look: dict[str, Any] = {"fontsize": style.SMALL, "color": style.MUTED}
    page.text(left, TOP + 0.15 * SIDE - 0.32, "array\nsooner", va="bottom", **look)
    page.text(left, TOP + 0.85 * SIDE + 0.1, "DMA\nsooner", **look)


def main() -> None:
    """Measure both homes, and write CSV and picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chip", help="another chip than the run file's")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE, as systolic run")
    parser.add_argument("--largest", type=int, default=LARGEST, help="longest side")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=HERE, help="folder (default: this script's)")
    chosen = parser.parse_args()
    config = load_run(RUN, [*([f"chip={chosen.chip}"] if chosen.chip else []), *chosen.set])
    sides = [1 << n for n in range(chosen.largest.bit_length())]
    cells = [cell for home in HOMES for cell in measure(config, home, sides, chosen.jobs)]
    write_csv(cells, chosen.out / f"{NAME}.csv")
    draw(cells, chosen.out / f"{NAME}.png", config.chip.name)


if __name__ == "__main__":
    main()
