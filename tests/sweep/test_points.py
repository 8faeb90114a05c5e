"""Does each method give the points it says, the same for the same seed?"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import refused
from support.sweeps import HEAD, sweep, sweep_file
from systolic.config import expand, load_run
from systolic.config.sweep import spaces
from systolic.errors import ConfigError
from systolic.sweep.space import load_sweep

ROWS, COLS, LATENCY = "chip.pe_array.rows", "chip.pe_array.cols", "chip.dram.latency_cycles"
VARY = f'"{ROWS}" = [1, 2, 4]\n"{COLS}" = [1, 2, 4]\n"{LATENCY}" = [0, 10]'


def points(folder: Path, more: str, vary: str = VARY) -> list[tuple[object, ...]]:
    path = sweep_file(folder, sweep(more, vary))
    return [tuple(point.varied.values()) for point in expand(load_run(path))]


def test_a_list_goes_value_by_value(tmp_path: Path) -> None:
    vary = f'"{ROWS}" = [1, 2, 4]\n"{COLS}" = [4, 2, 1]'
    assert points(tmp_path, 'method = "list"', vary) == [(1, 4), (2, 2), (4, 1)]


def test_a_list_of_tables(tmp_path: Path) -> None:
    listed = f'method = "list"\npoints = [{{ "{ROWS}" = 2, "{COLS}" = 1 }}, {{ "{LATENCY}" = 7 }}]'
    path = sweep_file(tmp_path, f'{HEAD}[[sweep]]\nname = "s"\n{listed}\n')
    found = list(expand(load_run(path)))
    assert [point.varied for point in found] == [{ROWS: 2, COLS: 1}, {LATENCY: 7}]
    assert found[1].config.chip.dram.latency_cycles == 7
    assert found[1].config.chip.pe_array.rows == 4


def test_random_points_are_of_the_grid_and_differ(tmp_path: Path) -> None:
    grid = points(tmp_path, "")
    found = points(tmp_path, 'method = "random"\npoints = 10\nseed = 5')
    assert len(set(found)) == 10
    assert set(found) < set(grid)
    assert found == points(tmp_path, 'method = "random"\npoints = 10\nseed = 5')
    assert found != points(tmp_path, 'method = "random"\npoints = 10\nseed = 6')
    every = points(tmp_path, 'method = "random"\npoints = 1000')
    assert sorted(every) == sorted(grid)


def test_random_points_of_a_space_that_nobody_can_count_out(tmp_path: Path) -> None:
    many = list(range(1, 101))
    keys = ["latency_cycles", "bytes_per_cycle"]
    vary = "\n".join(f'"chip.dram.{key}" = {many}' for key in keys)
    vary += "".join(f'\n"chip.clock.c{n}" = {many}' for n in range(30))
    path = sweep_file(tmp_path, sweep('method = "random"\npoints = 3', vary))
    (space,) = spaces(load_run(path))
    assert space.combinations == 100**32
    assert len({tuple(space.point(n).varied.values()) for n in range(3)}) == 3


GIB = ", ".join(map(str, range(1, 1001)))
BAD = {
    "a grid of 10^9": (
        "",
        f'"{LATENCY}" = [{GIB}]\n"chip.dram.bytes_per_cycle" = [{GIB}]\n"{ROWS}" = [{GIB}]',
        r"\[sweep\] has 1000000000 points, more than 10000000; method = ",
    ),
    "random without number": ('method = "random"', VARY, 'method = "random" needs points = a num'),
    "a grid with a number": ("points = 3", VARY, 'method = "grid" takes every combination'),
    "a list with a number": ('method = "list"\npoints = 3', VARY, "needs a list of tables"),
    "unequal lists": ('method = "list"', VARY, "needs equally many values, found: chip.pe_array"),
    "an unknown method": ('method = "gird"', VARY, 'perhaps "grid" was meant'),
    "no point at all": (
        'method = "random"\npoints = 0',
        VARY,
        "points: needs an integer >= 1, or a list",
    ),
    "an unknown key": ("", '"chip.pe_array.row" = [1]', 'unknown key "row".*perhaps "rows" was'),
}


@pytest.mark.parametrize(("more", "vary", "text"), BAD.values(), ids=BAD)
def test_bad_sweeps(more: str, vary: str, text: str, tmp_path: Path) -> None:
    path = sweep_file(tmp_path, sweep(more, vary))
    with pytest.raises(ConfigError, match=text):
        _ = load_sweep(path, [], values=False).spaces
    line = refused("sweep", path, "--out", tmp_path / "o")
    assert line.startswith(f"{path}: ")
    assert not (tmp_path / "o").exists()


def test_a_file_without_sweep(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, HEAD)
    assert refused("sweep", path) == f"{path}: has no [[sweep]], and one is needed here"
    assert "Missing argument 'FILE'" in refused("sweep")
