"""What an export is given of a run: the records, and the names that they do not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from systolic.trace.records import Trace


class Arrow(NamedTuple):
    """The post of one instruction satisfied a wait of another, at its start; times in ticks."""

    poster: int
    posted: int
    waiter: int
    started: int


@dataclass(frozen=True, eq=False)
class Observed:
    """One run.

    ticks_mhz: ticks in a microsecond. names: of the instructions, by number. operations: the
    operation of each; None if the work was a program. semaphores: their names. arrows: yields posts
    with the starts that waited for them; called only if a format shows them.
    """

    run: str
    trace: Trace
    ticks_mhz: int
    names: Sequence[str]
    operations: Sequence[str] | None
    semaphores: Sequence[str]
    arrows: Callable[[], Iterator[Arrow]]
