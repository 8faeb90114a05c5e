"""Do the shipped DRAM chips give the bandwidth that their data sheets let one expect?

Four patterns of access, each worked out from the figures of the data sheet in this file, which
takes none from the chip files and no formula from the package. The share that refresh takes comes
off each: tRP + tRFC, and for rows that are to be opened again tRCD, in every tREFI.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from systolic.config import load_chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate

CHIPS = Path(__file__).resolve().parents[3] / "configs" / "chips"
PARTITIONS = 128


class Sheet(NamedTuple):
    """Figures of a data sheet: MHz, bytes, and timings in nanoseconds (ns) or clock cycles (ck)."""

    mhz: int
    channels: int
    groups: int
    banks_of_group: int
    burst: int
    row: int
    bytes_ck: int
    ccd_l_ck: int
    rcd_ns: float
    rp_ns: float
    rc_ns: float
    rrd_ns: float
    faw_ns: float
    refi_ns: float
    rfc_ns: float

    def refreshed(self, also_ns: float = 0.0) -> float:
        """Return the share of time that refresh leaves."""
        return 1 - (self.rp_ns + self.rfc_ns + also_ns) / self.refi_ns

    @property
    def cycle_ns(self) -> float:
        return 1000 / self.mhz

    def streaming(self) -> float:
        """Return GB/s of all channels with their buses always busy."""
        return self.channels * self.bytes_ck * self.mhz / 1000 * self.refreshed(self.rcd_ns)

    def row_hits(self) -> float:
        """Return GB/s of bursts in one open row, so in one bank group, of each channel."""
        gap_ns = self.ccd_l_ck * self.cycle_ns
        return self.channels * self.burst / gap_ns * self.refreshed(self.rcd_ns)

    def scattered(self) -> float:
        """Return GB/s of bursts that each open a row of the next bank, in all groups in turn."""
        banks = self.groups * self.banks_of_group
        gap_ns = max(
            self.rrd_ns,
            self.faw_ns / 4,
            self.rc_ns / banks,
            self.burst / self.bytes_ck * 1000 / self.mhz,
        )
        return self.channels * self.burst / gap_ns * self.refreshed()

    def conflicts(self) -> float:
        """Return GB/s of bursts that each open another row of the same bank."""
        return self.channels * self.burst / self.rc_ns * self.refreshed()


SHEETS = {
    # Micron MT40A1G8 -083: tCK 0.833; tRC is tRAS 32 + tRP 14.16, in whole cycles 39 + 17
    "ddr4_2400_128x128": Sheet(
        1200, 4, 4, 4, 64, 8192, 16, 6, 14.16, 14.16, 46.67, 3.33, 21.67, 7800, 350),
    # JESD209-5B, LPDDR5-6400 x16 in bank-group mode: tCK 1.25
    "lpddr5_6400_128x128": Sheet(
        800, 4, 4, 4, 32, 2048, 16, 4, 18.75, 18.75, 61.25, 5, 20, 3906, 280),
    # JESD235, pseudo channels at 3.2 Gbit/s: tCK 0.625; nanoseconds in whole cycles
    "hbm2e_128x128": Sheet(
        1600, 16, 4, 4, 32, 1024, 16, 4, 14.375, 14.375, 48.125, 4.375, 15, 3900, 350),
    # JESD238, pseudo channels at 6.4 Gbit/s, two stack IDs: tCK 0.625
    "hbm3_128x128": Sheet(
        1600, 32, 8, 4, 32, 1024, 16, 4, 19.375, 16.25, 45, 2.5, 15, 3900, 350),
}  # fmt: skip


def bandwidth(name: str, bursts: int, *pattern: tuple[int, int]) -> float:
    """Return GB/s of whole bursts read by one queue at these steps in bytes, outermost first."""
    chip, size = load_chip(CHIPS / f"{name}.toml"), SHEETS[name].burst
    words = size // 4
    source = tuple((step // 4, count) for step, count in pattern)
    copy = DmaCopy(
        dma_queue=0,
        source=Access(Buffer.DRAM, "f32", 0, 1, 0, (*source, (1, words))),
        target=Access(Buffer.STATE, "f32", 0, PARTITIONS, 0, ((1, bursts * words // PARTITIONS),)),
    )
    trace = simulate(chip, Program("pattern", (copy,)), values=False).trace
    (times,) = trace.times
    seconds = (times.done + 1 - times.first) / (chip.ticks_mhz * 1e6)
    return bursts * size / seconds / 1e9


REFRESHES = 12
"""About so many refreshes fall into a measurement."""


def number(name: str, gbps: float, unit: int) -> int:
    """Return how many units of bursts fill that many refresh intervals."""
    sheet = SHEETS[name]
    bursts = gbps * sheet.refi_ns * REFRESHES / sheet.burst
    return max(1, round(bursts / unit / PARTITIONS)) * PARTITIONS


@pytest.mark.parametrize("name", SHEETS)
def test_streaming(name):
    expected = SHEETS[name].streaming()
    bursts = number(name, expected, 1)
    found = bandwidth(name, bursts, (SHEETS[name].burst, bursts))
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("name", SHEETS)
def test_row_hits(name):
    """The bursts of a row, again and again, in every channel in turn."""
    sheet, expected = SHEETS[name], SHEETS[name].row_hits()
    interleave = sheet.groups * sheet.burst
    columns = sheet.row // sheet.burst
    rounds = number(name, expected, columns * sheet.channels)
    found = bandwidth(
        name,
        rounds * columns * sheet.channels,
        (0, rounds),
        (interleave * sheet.channels, columns),
        (interleave, sheet.channels),
    )
    assert found == pytest.approx(expected, rel=0.02)


def steps(sheet: Sheet) -> tuple[int, int, int]:
    """Return bytes from a channel, a bank and a row to the next, in the chips' address order."""
    interleave = sheet.groups * sheet.burst
    bank = sheet.row * sheet.groups * sheet.channels
    return interleave, bank, bank * sheet.banks_of_group


@pytest.mark.parametrize("name", SHEETS)
def test_scattered(name):
    sheet, expected = SHEETS[name], SHEETS[name].scattered()
    channel, bank, _ = steps(sheet)
    turn = sheet.banks_of_group * sheet.groups * sheet.channels
    rows = number(name, expected, turn)
    found = bandwidth(
        name,
        rows * turn,
        (bank, sheet.banks_of_group * rows),  # then the next row of the first bank
        (sheet.burst, sheet.groups),
        (channel, sheet.channels),
    )
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("name", SHEETS)
def test_row_conflicts(name):
    sheet, expected = SHEETS[name], SHEETS[name].conflicts()
    channel, _, row = steps(sheet)
    rows = number(name, expected, sheet.channels)
    found = bandwidth(name, rows * sheet.channels, (row, rows), (channel, sheet.channels))
    assert found == pytest.approx(expected, rel=0.02)


def test_the_table_of_the_page():
    """docs/memory.md gives what this file works out, in GB/s."""
    page = (CHIPS.parents[1] / "docs" / "memory.md").read_text(encoding="utf-8")
    for name, sheet in SHEETS.items():
        found = (sheet.streaming(), sheet.row_hits(), sheet.scattered(), sheet.conflicts())
        cells = " | ".join(f"{value:.1f}" for value in found)
        assert f"| `{name}` | {cells} |" in page
