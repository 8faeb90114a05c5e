"""Does a search find what a grid finds, with fewer runs, and the same for the same seed?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest

from support.sweeps import sweep, sweep_file
from systolic.config import SweepPoint, load_run
from systolic.config.sweep import SweepSpace, spaces
from systolic.errors import SystolicError
from systolic.sweep.search import Search, objectives_of

LATENCY, ROWS, DRAIN = "chip.dram.latency_cycles", "chip.pe_array.rows", "compile.drain"
VARY = (
    f'"{LATENCY}" = {list(range(0, 200, 10))}\n"{ROWS}" = [1, 2, 4]\n"{DRAIN}" = ["row", "block"]'
)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def space(folder: Path, points: int = 40, seed: int = 1, objectives: str = '["t"]') -> SweepSpace:
    more = f'method = "optuna"\npoints = {points}\nseed = {seed}\nobjectives = {objectives}'
    (found,) = spaces(load_run(sweep_file(folder, sweep(more, VARY))))
    return found


def result(point: SweepPoint) -> dict[str, Any]:
    """Return a made-up time: least at latency 70, 2 rows, drain row."""
    found = point.varied
    far = abs(found[LATENCY] - 70) + 50 * abs(found[ROWS] - 2) + 30 * (found[DRAIN] == "block")
    return {"t": 10.0 + far, "u": 1.0 / (1 + far)}


def asked(search: Search, count: int) -> list[SweepPoint]:
    points = []
    for _ in range(count):
        points.append(search.ask())
        search.tell(points[-1], result(points[-1]))
    return points


def test_the_best_of_120_points_is_found_in_half_of_them(tmp_path: Path) -> None:
    for seed in range(3):
        found = asked(Search(space(tmp_path, seed=seed)), 60)
        assert min(result(point)["t"] for point in found) == 10.0


def test_no_point_is_asked_for_twice_and_all_are_in_the_end(tmp_path: Path) -> None:
    found = asked(Search(space(tmp_path)), 120)
    assert len({str(point.varied) for point in found}) == 120


def test_the_same_points_for_the_same_seed(tmp_path: Path) -> None:
    one, same, other = (
        [str(p.varied) for p in asked(Search(space(tmp_path, seed=seed)), 15)] for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_several_objectives_of_which_one_is_made_large(tmp_path: Path) -> None:
    search = Search(space(tmp_path, objectives='["t", "utilisation"]'))
    for _ in range(40):
        point = search.ask()
        found = result(point)
        search.tell(point, {"t": found["t"], "utilisation": found["u"]})
    best = min(search._study.best_trials, key=lambda trial: trial.values[0])
    assert best.values[1] == max(trial.values[1] for trial in search._study.best_trials)


def test_a_point_that_failed_is_not_asked_for_again(tmp_path: Path) -> None:
    search = Search(space(tmp_path))
    first = search.ask()
    search.tell(first, {"error": "no"})
    assert str(first.varied) not in {str(p.varied) for p in asked(search, 119)}


def test_what_was_found_before_is_known(tmp_path: Path) -> None:
    before = asked(Search(space(tmp_path)), 20)
    search = Search(space(tmp_path))
    assert all(search.know(point.varied, result(point)) for point in before)
    assert not search.know(before[0].varied, result(before[0]))
    assert not search.know({LATENCY: 5, ROWS: 1, DRAIN: "row"}, {"t": 1.0})
    assert search.found == 20
    assert len(search._study.trials) == 20
    again = {str(point.varied) for point in asked(search, 100)}
    assert not again & {str(point.varied) for point in before}


def test_several_points_may_be_out_at_once(tmp_path: Path) -> None:
    search = Search(space(tmp_path))
    out = [search.ask() for _ in range(30)]
    assert len({str(point.varied) for point in out}) == 30
    for point in reversed(out):
        search.tell(point, result(point))


def test_an_objective_that_is_no_number() -> None:
    with pytest.raises(SystolicError, match=r'no number "cycle" \(they have: cycles\); perhaps'):
        objectives_of({"cycles": 1, "error": "x"}, ["cycle"], "s")
