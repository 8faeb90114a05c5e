"""The axes of a sweep as its rows show them: for each key that varies, the values it takes.

Keys that go together (`zip`) are one axis. A row is a dict with `vary` (key: value) and the columns
of its results. Not here: drawing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from systolic.report.sweeps.pairs import PointRow

AxisPlace = tuple[Any, ...]
"""The values that the keys of an axis have together."""


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """Keys that vary together, and their values in order: numbers by size, others as they come."""

    keys: tuple[str, ...]
    values: tuple[AxisPlace, ...]

    @property
    def name(self) -> str:
        """Return the keys by their last words: ``rows, cols``."""
        return ", ".join(last_word(key) for key in self.keys)

    def of(self, row: PointRow) -> AxisPlace:
        """Return the place of a row on the axis."""
        return place_of(row, self.keys)

    def is_number(self) -> bool:
        """Return whether the first key has numbers only."""
        return all(_is_number(place[0]) for place in self.values)


def axes_of(rows: Sequence[PointRow], zips: Sequence[Sequence[str]] = ()) -> list[SweepAxis]:
    """Return the axes along which rows differ, in the order of their keys."""
    group_of = {key: tuple(group) for group in zips for key in group}
    keys = dict.fromkeys(key for row in rows for key in row["vary"])
    groups = dict.fromkeys(group_of.get(key, (key,)) for key in keys)
    found = []
    for group in groups:
        values = dict.fromkeys(place_of(row, group) for row in rows)
        if len(values) > 1:
            found.append(SweepAxis(group, _sorted(tuple(values))))
    return found


def place_of(row: PointRow, keys: Sequence[str]) -> AxisPlace:
    """Return the values that keys have in a row; None for one that it has not."""
    return tuple(_hashable(row["vary"].get(key)) for key in keys)


def place_text(place: AxisPlace) -> str:
    """Return a place as a label: its values, each once if they are all the same."""
    texts = [value_word(value) for value in place]
    return texts[0] if len(set(texts)) == 1 else " x ".join(texts)


def value_word(value: Any) -> str:
    """Return a value as a label: of a path or a shape the part that tells it from others."""
    return "-" if value is None else str(value)


def last_word(key: str) -> str:
    """Return the last word of a dotted key."""
    return key.rsplit(".", 1)[-1]


def _hashable(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | Mapping) else value


def _sorted(values: tuple[AxisPlace, ...]) -> tuple[AxisPlace, ...]:
    if all(_is_number(value) for place in values for value in place):
        return tuple(sorted(values))
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
