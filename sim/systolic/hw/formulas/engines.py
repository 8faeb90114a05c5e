"""What the engines of a chip can do at best: for bounds, which hold whatever engine is chosen."""

from __future__ import annotations

from fractions import Fraction

from systolic.hw.spec import Chip, Engine, Rate
from systolic.hw.units import BufferName

_READ_NOTHING = {"memset", "iota"}


def fastest(engine: Engine, source: BufferName) -> Fraction:
    """Return the most elements of a lane per cycle that an engine reads from a buffer."""
    rates = [Fraction(row.elements, row.cycles) for row in engine.rates if _may_read(row, source)]
    return max([Fraction(engine.elements_per_cycle), *rates])


def _may_read(row: Rate, source: BufferName) -> bool:
    """Return whether an instruction that fits the rate may read from a buffer."""
    reads = not row.does or not _READ_NOTHING.issuperset(row.does)
    return reads and (row.operands is None or source in row.operands)


def copiers(chip: Chip, source: BufferName) -> dict[str, Engine]:
    """Return the engines that can bring values from a buffer to the state buffer."""
    return {
        name: engine
        for name, engine in chip.lane_engines.items()
        if source in engine.reads
        and "state_buffer" in engine.writes
        and not _READ_NOTHING.issuperset(engine.does)
    }


def drainers(chip: Chip) -> tuple[str, ...]:
    """Return the engines that can copy results out of the result buffer."""
    return tuple(copiers(chip, "result_buffer"))
