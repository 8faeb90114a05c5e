"""How many bursts a second does the event engine move through channels and banks?

    python benchmarks/bench_dram.py [--size 1024] [--chip ddr4_2400_128x128]

Four queues of a DDR4 chip each transpose a float32 matrix from DRAM to DRAM, element by element,
so that every element costs two bursts and all queues meet at banks and buses: once without
timings, one burst in hand, and once with all of them, refresh included, and 64 bursts in hand. CPU
seconds of one run after a small one, which loads (or compiles) the arithmetic.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate

CHIPS = Path(__file__).resolve().parents[1] / "configs" / "chips"
BOTH = "ddr4_128x128", "ddr4_2400_128x128"


def program(chip: Chip, size: int) -> Program:
    """Return a transpose of [size, size] for every queue, each in bytes of its own."""
    matrix = 4 * size * size
    copies = []
    for queue in range(chip.dma.queues):
        source = Access(Buffer.DRAM, "f32", 0, 1, 2 * queue * matrix, ((1, size * size),))
        target = Access(
            Buffer.DRAM, "f32", 0, 1, (2 * queue + 1) * matrix, ((1, size), (size, size))
        )
        copies.append(DmaCopy(dma_queue=queue, source=source, target=target))
    return Program("transposes", tuple(copies))


def measure(name: str, size: int) -> str:
    """Return bursts, cycles and bursts per CPU second of a chip, as a line."""
    chip = load_chip(CHIPS / f"{name}.toml")
    simulate(chip, program(chip, 128), values=False)
    begun = time.process_time()
    trace = simulate(chip, program(chip, size), values=False).trace
    seconds = time.process_time() - begun
    bursts = sum(channel.bursts for channel in trace.transfers.channels.values())
    return (
        f"{name}: {bursts:,} bursts, {trace.cycles('dma0'):,} DMA cycles: {seconds:.2f} s, "
        f"{bursts / seconds / 1e6:.1f} million bursts a second"
    )


def main() -> None:
    """Print a line for each chip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--chip", action="append", help="name of a chip (default: both)")
    arguments = parser.parse_args()
    for name in arguments.chip or BOTH:
        print(measure(name, arguments.size))


if __name__ == "__main__":
    main()
