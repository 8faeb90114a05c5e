"""A sweep that runs everything two ways, as data: pairs of times, and where their ratio is 1.

Points are summaries with `sweep` (the sweep's name) and `vary` (dotted key: value). Two points that
differ only in `compile.via` make a pair. Not here: drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from systolic.layout import Shape

VIA = "compile.via"
PointRow: TypeAlias = Mapping[str, Any]
"""A point of a sweep that was run: `sweep`, `vary`, and its summary, or the `error`."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The same work via the array and via DRAM: the varied value, its place on the axis, times."""

    value: str
    x: float
    array_ns: float
    dram_ns: float

    @property
    def ratio(self) -> float:
        """Return how many times longer the way through DRAM takes."""
        return self.dram_ns / self.array_ns


@dataclass(frozen=True, slots=True)
class Comparison:
    """A sweep over `key`, its pairs in the order of the axis."""

    sweep: str
    key: str
    pairs: tuple[Pair, ...]

    @property
    def over_size(self) -> bool:
        """Return whether the sizes of tensors are on the axis, in elements."""
        return self.key.endswith("shape")

    def crossing(self) -> float | None:
        """Return where the ratio passes 1, interpolated on logarithmic axes, or None."""
        for a, b in zip(self.pairs, self.pairs[1:], strict=False):
            one, other = math.log(a.ratio), math.log(b.ratio)
            if one * other < 0 or (one == 0 and other != 0):
                part = one / (one - other)
                if a.x > 0 and b.x > 0:
                    return float(a.x * (b.x / a.x) ** part)
                return a.x + (b.x - a.x) * part
        return None


def comparisons(points: Iterable[PointRow]) -> list[Comparison]:
    """Return a comparison for each sweep that ran its points both ways, in the sweeps' order."""
    sweeps: dict[str, list[PointRow]] = {}
    for point in points:
        sweeps.setdefault(str(point["sweep"]), []).append(point)
    found = (_comparison(name, rows) for name, rows in sweeps.items())
    return [one for one in found if one is not None]


def _comparison(sweep: str, points: Sequence[PointRow]) -> Comparison | None:
    keys = [key for key in points[0]["vary"] if key != VIA]
    varied = [k for k in keys if len({str(point["vary"].get(k)) for point in points}) > 1]
    key = (varied or keys or [""])[0]
    times: dict[str, dict[str, float]] = {}
    places: dict[str, float] = {}
    for point in points:
        value = str(point["vary"].get(key, ""))
        via = str(point["vary"].get(VIA))
        times.setdefault(value, {})[via] = _time_ns(point)
        places[value] = _place(key, value, len(places))
    pairs = [
        Pair(value, places[value], both["pe"], both["dram"])
        for value, both in times.items()
        if {"pe", "dram"} <= both.keys()
    ]
    if not pairs:
        return None
    return Comparison(sweep, key, tuple(sorted(pairs, key=lambda pair: pair.x)))


def _time_ns(point: PointRow) -> float:
    summary = point.get("summary", point)
    return float(summary["time_ns"])


def _place(key: str, value: str, order: int) -> float:
    """Return where a value stands on the axis: elements of a shape, a number, or its order."""
    if key.endswith("shape"):
        return float(Shape.parse(value).num_elements())
    try:
        return float(value)
    except ValueError:
        return float(order)
