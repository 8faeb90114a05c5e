"""The units that measures are told in: a unit's factor from the one that the measure is taken in.

A time may also be told in cycles of a unit of the chip, ``vector cycles``. The chip says how long
these cycles are, so such units have no factor here.
"""

from __future__ import annotations

from collections.abc import Mapping

CYCLES = "cycles"
OWN_CYCLES = "UNIT cycles"
TIMES = {"ns": 1.0, "us": 1e-3, "ms": 1e-6, "s": 1e-9, CYCLES: 1.0, OWN_CYCLES: 1.0}
COUNTS = {
    "": 1.0,
    "bytes": 1.0,
    "KiB": 1 / (1 << 10),
    "MiB": 1 / (1 << 20),
    "GiB": 1 / (1 << 30),
    "MHz": 1.0,
    "GHz": 1e-3,
    "%": 100.0,
    CYCLES: 1.0,
}
UNITS_OF: Mapping[str, Mapping[str, float]] = {
    "length": TIMES,
    "each": TIMES,
    "array_rate": {"TFLOPS": 1e-3, "GFLOPS": 1.0, "%": 100.0},
    "dma_rate": {"bytes/ns": 1.0, "GB/s": 1.0, "%": 100.0},
    "summary": COUNTS,
    "chip": COUNTS,
    "largest": {"": 1.0},
    "legal": {"": 1.0},
}
"""The units of each measure, with the factor that its value is multiplied by."""


def factor_of(measure: str, unit: str) -> float | None:
    """Return the factor of a unit; None if the measure is not told in it."""
    units = UNITS_OF[measure]
    if OWN_CYCLES in units and unit.endswith(f" {CYCLES}"):
        return units[OWN_CYCLES]
    return None if unit == OWN_CYCLES else units.get(unit)


def unit_of_cycles(unit: str) -> str | None:
    """Return the unit whose cycles a time is told in; None if it is told in seconds."""
    if unit == CYCLES:
        return "pe_array"
    return unit.removesuffix(f" {CYCLES}") if unit.endswith(f" {CYCLES}") else None
