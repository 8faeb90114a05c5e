"""Checks of the places of tiles for the later passes: no overlap, each tile there when used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from systolic.compiler.ir.broken import BrokenPassError
from systolic.compiler.ir.on_chip.chip_tiles import whole_banks
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.compiler.place.residency import Stay
from systolic.hw.spec import Chip
from systolic.isa import Access
from systolic.spans import Interval


def verify_places(
    stays: Sequence[Stay], fixed: Iterable[Access], tasks: Sequence[Task], chip: Chip
) -> None:
    """Raise BrokenPassError unless every tile of a task has bytes of its own at that time.

    Stays lie inside the state buffer, and inside a bank where a tile must. Two stays that overlap
    in time do not overlap in bytes; none overlaps `fixed`, the places that are taken all the
    time (by identities and blocks). Every task finds all of its tiles.
    """
    for message in _faults(stays, fixed, tasks, chip):
        raise BrokenPassError("place", message)


def _faults(
    stays: Sequence[Stay], fixed: Iterable[Access], tasks: Sequence[Task], chip: Chip
) -> Iterator[str]:
    constant = [Interval(a.start, a.start + a.elements * a.element_bytes) for a in fixed]
    have, bank = chip.state_buffer.bytes_per_partition, whole_banks(chip)
    for stay in stays:
        held = _bytes(stay)
        if held.first < 0 or held.stop > have:
            yield f"{stay.tile} lies in bytes {held.first}:{held.stop} of {have}"
        if bank and held.first // bank != (held.stop - 1) // bank:
            yield f"{stay.tile} lies across two banks of {bank} bytes"
        if any(held.meets(other) for other in constant):
            yield f"{stay.tile} lies in the bytes of an identity"
    yield from _collisions(stays)
    yield from _missing(stays, tasks)


def _bytes(stay: Stay) -> Interval:
    return Interval(stay.start, stay.start + stay.size_bytes)


def _collisions(stays: Sequence[Stay]) -> Iterator[str]:
    """Yield stays that share bytes before the task in which one follows the other."""
    here: list[Stay] = []
    for stay in sorted(stays, key=lambda s: s.first_task):
        here = [other for other in here if other.last_task > stay.first_task]
        for other in here:
            together = other.first_task < stay.last_task
            if together and _bytes(stay).meets(_bytes(other)):
                yield f"{other.tile} and {stay.tile} share bytes in task {stay.first_task}"
        here.append(stay)


def _missing(stays: Sequence[Stay], tasks: Sequence[Task]) -> Iterator[str]:
    """Yield tiles that a task uses and does not find, or that share bytes in that task."""
    of_tile: dict[MatrixTile, list[Stay]] = {}
    for stay in stays:
        of_tile.setdefault(stay.tile, []).append(stay)
    for number, task in enumerate(tasks):
        found: list[Stay] = []
        for tile in dict.fromkeys((*task.reads, *task.writes)):
            there = [s for s in of_tile.get(tile, ()) if s.first_task <= number <= s.last_task]
            if not there:
                yield f"task {number} uses {tile}, which is not in the state buffer"
                return
            for other in found:
                if _bytes(there[-1]).meets(_bytes(other)):
                    yield f"task {number} uses {tile} and {other.tile} in the same bytes"
            found.append(there[-1])
