"""How many bursts a second does the event engine move through channels and banks?

    python benchmarks/bench_dram.py [--size 1024]

Four queues of the DDR4 chip each transpose a float32 matrix from DRAM to DRAM, element by element,
so that every element costs two bursts and all queues meet at banks and buses. CPU seconds of one
run after a small one, which loads (or compiles) the arithmetic.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate

CHIP = Path(__file__).resolve().parents[1] / "configs" / "chips" / "ddr4_128x128.toml"


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


def main() -> None:
    """Print bursts, cycles and bursts per CPU second."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024)
    size = parser.parse_args().size
    chip = load_chip(CHIP)
    simulate(chip, program(chip, 128), values=False)
    begun = time.process_time()
    trace = simulate(chip, program(chip, size), values=False).trace
    seconds = time.process_time() - begun
    bursts = sum(channel.bursts for channel in trace.transfers.channels.values())
    print(f"{bursts:,} bursts, {trace.cycles('dma0'):,} DMA cycles: {seconds:.2f} s, "
          f"{bursts / seconds / 1e6:.1f} million bursts a second")  # fmt: skip


if __name__ == "__main__":
    main()
