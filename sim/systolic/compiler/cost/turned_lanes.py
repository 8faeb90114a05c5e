"""What turns take whose results several engines copy out, each to a bank of its own.

A result lies across two banks. Each has one port for writes, so an engine that writes to a bank has
it for itself. The order is found by going through time: of the turns that end in either bank the
one is next whose result is copied out first, by the engine that is done with it first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from systolic.compiler.cost.word_relays import TurnTicks
from systolic.hw.spec import Chip


class TurnStep(NamedTuple):
    """A turn by its number, and the engine that copies its result out."""

    number: int
    engine: str


def turn_order(
    chip: Chip, ticks: TurnTicks, halves: Sequence[tuple[int, ...]]
) -> tuple[list[TurnStep], int]:
    """Return turns in their order, and about how many ticks they take.

    halves: in which banks of the result each turn ends. Results wait in the banks of the result
    buffer, one in each.
    """
    queues = dict[tuple[int, ...], deque[int]]()
    for number, some in enumerate(halves):
        queues.setdefault(some, deque()).append(number)
    free, ports, array = dict.fromkeys(ticks.taken, 0), dict[int, int](), ticks.load
    steps, ends = list[TurnStep](), list[int]()
    while any(queues.values()):
        if len(ends) >= chip.result_buffer.banks:
            array = max(array, ends[-chip.result_buffer.banks])
        best: tuple[int, tuple[int, ...], str] | None = None
        for some, waiting in queues.items():
            for name, taken in ticks.taken.items() if waiting else ():
                begin = max(array + ticks.until, free[name], *(ports.get(n, 0) for n in some))
                if best is None or begin + taken < best[0]:
                    best = begin + taken, some, name
        assert best is not None
        end, some, name = best
        steps.append(TurnStep(queues[some].popleft(), name))
        ends.append(end)
        array, free[name] = array + ticks.each, end
        ports |= dict.fromkeys(some, end)
    seen = {
        name: (chip.engine(name).latency_cycles + 1) * chip.period(name) for name in ticks.taken
    }
    return steps, max(end + seen[step.engine] for end, step in zip(ends, steps, strict=True))
