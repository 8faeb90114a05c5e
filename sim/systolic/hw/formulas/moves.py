"""Lower bound of work that only moves elements on the chip, or calculates each of them.

A closed formula that anyone can recompute, in ticks. Source: docs/timing_model.md, section 6.
"""

from __future__ import annotations

from systolic.hw.formulas.engines import copiers, lead_cycles, serial_cycles, written_bytes
from systolic.hw.formulas.ticks import UnitRate, least_end
from systolic.hw.formulas.timing import Bound
from systolic.hw.spec import Chip


def copied_bound(chip: Chip, elements: int, size_bytes: int, *, calculated: bool = False) -> Bound:
    """Return the least time in which elements get another place in the state buffer.

    Each is written by a lane of an engine or by a DMA queue. In a cycle of its clock

        an engine      writes lanes * its fastest rate words, each of up to four bytes of
                       elements side by side, or as many bytes as pass the ports, over latency + 1
                       cycles later
        the DMA engines move engines * bytes_per_cycle bytes, from the cycle after their latency on

    and begins when its first instruction is dispatched, and an engine ready to read. calculated:
    the elements are no bytes of the source, so that only engines make them.
    """
    ways = []
    for unit, engine in copiers(chip, "state_buffer").items():
        rate = chip.state_buffer.partitions * written_bytes(engine, chip.port_width_bytes)
        behind = lead_cycles(engine, "state_buffer") + engine.latency_cycles + 1
        ways.append(UnitRate(chip.period(unit), rate, behind))
    dma = chip.dma
    if not calculated or not ways:
        behind = serial_cycles(dma) + dma.latency_cycles + 1
        ways.append(UnitRate(chip.period("dma"), dma.engine_count * dma.bytes_per_cycle, behind))
    ticks = least_end(0, elements * size_bytes, ways)
    what = "lanes that calculate" if calculated else "lanes and DMA queues that copy"
    return Bound(ticks, what, chip.period("pe_array"))
