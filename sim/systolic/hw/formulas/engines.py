"""What the engines of a chip can do at best: for bounds, which hold whatever engine is chosen."""

from __future__ import annotations

from fractions import Fraction

from systolic.hw.datatypes import DATA_TYPES
from systolic.hw.spec import Chip, Dma, Engine, PEArray, Rate
from systolic.hw.units import BufferName

_READ_NOTHING = {"memset", "iota"}
_WIDEST = max(each.size_bytes for each in DATA_TYPES.values())


def fastest(engine: Engine, source: BufferName) -> Fraction:
    """Return the most elements of a lane per cycle that an engine reads from a buffer."""
    rates = [Fraction(row.elements, row.cycles) for row in engine.rates if _may_read(row, source)]
    return max([Fraction(engine.elements_per_cycle), *rates])


def written_bytes(engine: Engine, port_bytes: int) -> Fraction:
    """Return the most bytes that a lane writes in a cycle.

    An element has the bytes of a type that the rate is for, or of the widest type there is, and no
    more bytes than `port_bytes` pass a port. Elements of a narrow type that lie side by side can be
    written as one element of a wider type.
    """
    found = [engine.elements_per_cycle * Fraction(_WIDEST)]
    for row in engine.rates:
        if _may_read(row, "state_buffer"):
            widest = max((DATA_TYPES[name].size_bytes for name in row.types), default=_WIDEST)
            found.append(Fraction(row.elements, row.cycles) * widest)
    return min(max(found), Fraction(port_bytes))


def serial_cycles(unit: PEArray | Engine | Dma) -> int:
    """Return the cycles from when an instruction of a unit could start to when it does, at least.

    Dispatch that overlaps delays no instruction that stands alone.
    """
    return unit.dispatch_cycles if unit.dispatch == "serial" else 0


def lead_cycles(engine: Engine, source: BufferName) -> int:
    """Return the cycles from when an instruction could start to its first read of a buffer."""
    rows = [row.fixed_cycles for row in engine.rates if _may_read(row, source)]
    fixed = [engine.fixed_cycles, *(cycles for cycles in rows if cycles is not None)]
    return serial_cycles(engine) + min(fixed)


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
