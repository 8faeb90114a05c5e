"""Searching a space by Optuna, ask and tell: later points depend on the results of earlier ones.

What earlier searches of the same sweep found is told first, so a search that was ended goes on.
With one job, the points follow from the seed; with more they depend on the order of the answers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from systolic.config import SweepPoint
from systolic.config.sweep import SweepSpace
from systolic.errors import SystolicError, listed, perhaps, shortened
from systolic.sweep.extras import needed

MORE_IS_BETTER = ("utilisation", "images_per_second", "accuracy")
"""Columns that are made large; every other objective is made small."""
MOST_REPEATS = 10
"""Points in a row that are known already, before one is drawn among all that are not."""


class Search:
    """The search of one sweep."""

    def __init__(self, space: SweepSpace) -> None:
        optuna = self._optuna = needed("optuna", 'method = "optuna"')
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space = space
        self.objectives = space.table.objectives
        sampler = optuna.samplers.TPESampler(seed=space.table.seed)
        self._study = optuna.create_study(
            directions=[direction(name) for name in self.objectives], sampler=sampler
        )
        self._draw = random.Random(space.table.seed)
        self._axes = {f"axis {n}": axis for n, axis in enumerate(space.axes)}
        self._distributions = {name: self._axis(axis) for name, axis in self._axes.items()}
        self._asked: set[tuple[int, ...]] = set()
        self._open: dict[tuple[int, ...], Any] = {}
        self._values: dict[tuple[int, ...], list[float] | None] = {}

    @property
    def found(self) -> int:
        """Return how many different points have been asked for or told."""
        return len(self._asked)

    def know(self, varied: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        """Tell a point of an earlier search; False if it is no point of the grid."""
        places = self._places(varied)
        if places is None or places in self._asked:
            return False
        self._asked.add(places)
        self._values[places] = values = self._objectives_of(row)
        self._study.add_trial(
            self._optuna.trial.create_trial(
                params=dict(zip(self._axes, places, strict=True)),
                distributions=self._distributions,
                values=values,
                state=self._state(values),
            )
        )
        return True

    def ask(self) -> SweepPoint:
        """Return a point that was not asked for before."""
        for _ in range(MOST_REPEATS):
            trial = self._study.ask(self._distributions)
            places = tuple(trial.params[name] for name in self._axes)
            if places not in self._asked:
                return self._begun(places, trial)
            # The same point again has the same results; while they are awaited, it has none.
            self._finish(trial, self._values.get(places))
        places = self._unknown()
        params = dict(zip(self._axes, places, strict=True))
        self._study.enqueue_trial(params)
        return self._begun(places, self._study.ask(self._distributions))

    def tell(self, point: SweepPoint, row: Mapping[str, Any]) -> None:
        """Take the results of a point that was asked for."""
        places = self._places(point.varied)
        assert places is not None
        self._values[places] = values = self._objectives_of(row)
        self._finish(self._open.pop(places), values)

    def _begun(self, places: tuple[int, ...], trial: Any) -> SweepPoint:
        self._asked.add(places)
        self._open[places] = trial
        return self.space.at(places)

    def _finish(self, trial: Any, values: list[float] | None) -> None:
        if values is None:
            self._study.tell(trial, state=self._state(values))
        else:
            self._study.tell(trial, values)

    def _state(self, values: list[float] | None) -> Any:
        states = self._optuna.trial.TrialState
        return states.FAIL if values is None else states.COMPLETE

    def _unknown(self) -> tuple[int, ...]:
        """Return a point that was not asked for, drawn among all of them."""
        sizes = [len(axis) for axis in self.space.axes]
        number = self._draw.randrange(self.space.combinations)
        while True:  # ends: `found` is less than the size of the space
            rest, places = number, []
            for size in reversed(sizes):
                rest, place = divmod(rest, size)
                places.append(place)
            found = tuple(places[::-1])
            if found not in self._asked:
                return found
            number = (number + 1) % self.space.combinations

    def _axis(self, axis: Sequence[Mapping[str, Any]]) -> Any:
        """Return the places of an axis: numbers if its values rise or fall, else without order."""
        last, kinds = len(axis) - 1, self._optuna.distributions
        if _is_ordered([next(iter(each.values())) for each in axis]):
            return kinds.IntDistribution(0, last)
        return kinds.CategoricalDistribution(range(last + 1))

    def _places(self, varied: Mapping[str, Any]) -> tuple[int, ...] | None:
        places = []
        for axis in self.space.axes:
            wanted = {key: varied.get(key) for key in axis[0]}
            if wanted not in axis:
                return None
            places.append(axis.index(wanted))
        return tuple(places)

    def _objectives_of(self, row: Mapping[str, Any]) -> list[float] | None:
        """Return the objectives of a row; None of a point that could not be run."""
        if row.get("error") is not None:
            return None
        return objectives_of(row, self.objectives, self.space.table.name)


def direction(objective: str) -> str:
    """Return "maximize" or "minimize", Optuna's words for what is done to an objective."""
    return "maximize" if objective in MORE_IS_BETTER else "minimize"


def objectives_of(row: Mapping[str, Any], names: Sequence[str], sweep: str) -> list[float]:
    """Return the objectives of a row; SystolicError if it has no such number."""
    for name in names:
        if isinstance(row.get(name), bool) or not isinstance(row.get(name), int | float):
            known = [key for key, value in row.items() if type(value) in (int, float)]
            raise SystolicError(
                f'sweep "{shortened(sweep)}": objectives: results have no number '
                f'"{shortened(name)}" (they have: {listed(known)}){perhaps(name, known)}'
            )
    return [float(row[name]) for name in names]


def _is_ordered(values: Sequence[Any]) -> bool:
    if not all(type(value) in (int, float) for value in values):
        return False
    return list(values) in (sorted(values), sorted(values, reverse=True))
