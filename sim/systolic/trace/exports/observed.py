"""What an export is given of a run: the records, and the names that they do not hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from systolic.trace.passes import GridShape
from systolic.trace.records import Trace


class Arrow(NamedTuple):
    """The post of one instruction satisfied a wait of another, at its start; times in ticks."""

    poster: int
    posted: int
    waiter: int
    started: int


_PLACE = re.compile(r"(core|processor)[0-9]+(?=\.|$)")


def place_in(name: str) -> str:
    """Return the core or processor in a name such as ``core1.pe_array``; "" if there is none."""
    found = _PLACE.match(name)
    return found.group() if found else ""


@dataclass(frozen=True, eq=False)
class Observed:
    """One run.

    ticks_mhz: ticks in a microsecond. names: of the instructions, by number. operations: the
    operation of each; None if the work was a program. semaphores: their names. arrows: yields posts
    with the starts that waited for them; called only if a format shows them. parts: of units whose
    instructions are shown apart, the name of each part by the names of its instructions. shapes: of
    the arrays, by name.
    """

    run: str
    trace: Trace
    ticks_mhz: int
    names: Sequence[str]
    operations: Sequence[str] | None
    semaphores: Sequence[str]
    arrows: Callable[[], Iterator[Arrow]]
    shapes: Mapping[str, GridShape]
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def places(self) -> tuple[str, ...]:
        """Return the cores and processors of the units, in order; none on a chip of one core."""
        return tuple(dict.fromkeys(filter(None, map(place_in, self.trace.labels))))

    def parts_of(self, unit: str) -> tuple[str, ...]:
        """Return the names of the parts in which a unit's instructions are shown; "" for one."""
        return tuple(dict.fromkeys(self.parts.get(unit, {"": ""}).values()))

    def part_of(self, unit: str, instruction: int) -> str:
        """Return the part that an instruction of a unit belongs to."""
        return self.parts[unit][self.names[instruction]] if unit in self.parts else ""
