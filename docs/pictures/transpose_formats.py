"""What does a format cost? ``python docs/pictures/transpose_formats.py``.

A 512 x 512 matrix is transposed from each of the formats that a TPU uses, on the chip and from DRAM
to DRAM, by the sweep of `configs/runs/transpose_formats.toml`. The cycles go to
transpose_formats.csv, the picture to transpose_formats.png, beside this script or in the folder of
`--out`. A few seconds.

    python docs/pictures/transpose_formats.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from matplotlib.axes import Axes

from systolic.config import RunConfig, load_run
from systolic.layout import Shape
from systolic.report.paper import style
from systolic.report.paper.figure_page import FigurePage
from systolic.sweep.memory import rows_in_order
from systolic.sweep.space import SweepFile

HERE = Path(__file__).parent
RUN = HERE.parents[1] / "configs" / "runs" / "transpose_formats.toml"
NAME = "transpose_formats"
HOMES = {"state_buffer": "On the chip", "dram": "From DRAM to DRAM"}
COLOURS = {"f32": style.HUE["stream"], "bf16": style.HUE["load"], "s8": style.MUTED}
WIDE, TALL, LEFT, GAP, TOP, FOOT = 5.2, 3.2, 1.5, 0.5, 1.5, 0.6


@dataclass(frozen=True, slots=True)
class Cell:
    """One transpose: where source and result live, the source's type and tiles, and the cycles."""

    home: str
    dtype: str
    tiles: str
    cycles: int


def measure(config: RunConfig) -> list[Cell]:
    """Return a cell for each point of the sweeps over the source's format."""
    found = []
    for sweep in config.sweep:
        if sweep.name.startswith("source"):
            file = SweepFile(_with_only(config, sweep.name), values=False)
            for row in rows_in_order(file):
                vary = row["vary"]
                shape = Shape.parse(vary["workload.shape"])
                tiles = "".join(f"({tile})".replace("((", "(").replace("))", ")")
                                for tile in map(str, shape.layout.tiles))  # fmt: skip
                cycles = row["cycles"]
                found.append(Cell(vary["workload.home"], shape.element_type, tiles, cycles))
    return found


def _with_only(config: RunConfig, name: str) -> RunConfig:
    """Return the run with one of its sweeps."""
    return replace(config, sweep=tuple(each for each in config.sweep if each.name == name))


def write_csv(cells: Sequence[Cell], path: Path) -> None:
    """Write a line for each cell."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([field.name for field in fields(Cell)])
        table.writerows(asdict(cell).values() for cell in cells)


def read_csv(path: Path) -> list[Cell]:
    """Return the cells of a file that `write_csv` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Cell(*rest, int(cycles)) for *rest, cycles in list(csv.reader(file))[1:]]


def draw(cells: Sequence[Cell], path: Path, chip: str) -> None:
    """Draw bars for each home: one for each format and type, both homes with one scale."""
    page = FigurePage(LEFT + 2 * WIDE + GAP + 0.3, TOP + TALL + FOOT)
    page.text(0.3, 0.25, "What a format costs a transpose", fontsize=style.TITLE, weight="bold")
    note = f"512 x 512, the source in each of a TPU's formats, transposed on {chip}; cycles"
    page.text(0.3, 0.66, note, color=style.MUTED)
    most = max(cell.cycles for cell in cells)
    for number, (home, name) in enumerate(HOMES.items()):
        left = LEFT + number * (WIDE + GAP)
        heading = f"{name}: {finding(cells, home)}"
        page.text(left, TOP - 0.3, heading, fontsize=style.HEADING, weight="bold")
        axes = page.axes(left, TOP, WIDE, TALL)
        _bars(axes, [cell for cell in cells if cell.home == home], most, named=number == 0)
    page.save(path)


def finding(cells: Sequence[Cell], home: str) -> str:
    """Return how much longer a format takes than no tiles, at most, or how much less."""
    by_type = [
        [cell.cycles for cell in cells if (cell.home, cell.dtype) == (home, dtype)]
        for dtype in COLOURS
    ]
    more = max(max(each) / each[0] - 1 for each in by_type if each)
    less = max(1 - min(each) / each[0] for each in by_type if each)
    costs = f"costs {f'up to {more:.0%}' if more else 'nothing'}"
    return costs + (f", saves up to {less:.0%}" if less else "")


def _bars(axes: Axes, cells: Sequence[Cell], most: int, *, named: bool) -> None:
    formats = list(dict.fromkeys(cell.tiles for cell in cells))
    thick = 0.8 / len(COLOURS)
    for cell in cells:
        number = list(COLOURS).index(cell.dtype)
        at = formats.index(cell.tiles) + (number - 1) * thick
        axes.barh(at, cell.cycles, height=thick * 0.9, color=COLOURS[cell.dtype])
        axes.text(
            cell.cycles, at, f" {cell.dtype} {cell.cycles:,}", va="center",
            fontsize=style.SMALL, color=style.INK,
        )  # fmt: skip
    axes.set_axis_on()
    axes.set_xlim(0, most * 1.25)
    axes.set_ylim(len(formats) - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks(range(len(formats)), [f or "no tiles" for f in formats] if named else [])
    axes.tick_params(labelsize=style.BODY, colors=style.INK, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def main() -> None:
    """Measure, and write CSV and picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE, help="folder (default: this script's)")
    chosen = parser.parse_args()
    config = load_run(RUN)
    cells = measure(config)
    write_csv(cells, chosen.out / f"{NAME}.csv")
    draw(cells, chosen.out / f"{NAME}.png", config.chip.name)


if __name__ == "__main__":
    main()
