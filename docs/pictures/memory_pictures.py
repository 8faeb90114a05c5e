"""Draw the picture of docs/memory.md: ``python docs/pictures/memory_pictures.py``.

One queue reads from DRAM; its bandwidth over the length of its runs, and over the step from one
burst to the next. A minute or two, after the first run has compiled the arithmetic.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate

HERE = Path(__file__).parent
CHIPS = HERE.parents[1] / "configs" / "chips"
LINES = {
    "ddr4_2400_128x128": "DDR4-2400, 4 channels",
    "lpddr5_6400_128x128": "LPDDR5-6400, 4 channels",
    "hbm2e_128x128": "HBM2E stack",
    "hbm3_128x128": "HBM3 stack",
}
PARTITIONS = 128
FAR_BYTES = 1 << 18
"""From the start of a run to that of the next one: another row of the same banks."""
BYTES = 1 << 23
"""Read for a point, or as many as fit into the first 4 GiB of DRAM."""


def bandwidth(chip: Chip, run_bytes: int, step_bytes: int) -> float:
    """Return GB/s of the bytes of runs that one queue reads, one every `step_bytes`."""
    runs = (
        max(PARTITIONS, min(BYTES // run_bytes, (1 << 32) // step_bytes)) // PARTITIONS * PARTITIONS
    )
    words = run_bytes // 4
    copy = DmaCopy(
        dma_queue=0,
        source=Access(Buffer.DRAM, "f32", 0, 1, 0, ((step_bytes // 4, runs), (1, words))),
        target=Access(Buffer.STATE, "f32", 0, PARTITIONS, 0, ((1, runs * words // PARTITIONS),)),
    )
    (times,) = simulate(chip, Program("runs", (copy,)), values=False).trace.times
    seconds = (times.done + 1 - times.first) / (chip.ticks_mhz * 1e6)
    return runs * run_bytes / seconds / 1e9


def hashed(chip: Chip, *, is_hashed: bool) -> Chip:
    """Return the chip with channels and banks hashed, or neither."""
    table = chip.model_dump()
    table["dram"]["organisation"] |= {"hash_channels": is_hashed, "hash_banks": is_hashed}
    return Chip.model_validate(table)


def main() -> None:
    """Write the picture beside this script."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    for number, (name, label) in enumerate(LINES.items()):
        chip, color = load_chip(CHIPS / f"{name}.toml"), f"C{number}"
        lengths = [1 << n for n in range(5, 18)]
        steps = [1 << n for n in range(5, 21)]
        for style in ("-", "--"):
            each = hashed(chip, is_hashed=style == "--")
            runs = [bandwidth(each, length, FAR_BYTES) for length in lengths]
            left.plot(lengths, runs, style, color=color, label=label if style == "-" else None)
            strides = [bandwidth(each, min(step, 32), step) for step in steps]
            right.plot(steps, strides, style, color=color)
    left.set_xlabel("bytes of a run; runs begin every 256 KiB")
    right.set_xlabel("bytes from one read of 32 bytes to the next")
    left.set_ylabel("GB/s of bytes asked for, one queue")
    left.legend(loc="lower right", fontsize=9, title="dashed: hash_channels, hash_banks")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.grid(visible=True, which="both", alpha=0.3)
    figure.savefig(HERE / "memory_bandwidth.png", dpi=110)


if __name__ == "__main__":
    main()
