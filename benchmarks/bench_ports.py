"""What does it cost to simulate a state buffer whose partitions have ports of their own?

    python benchmarks/bench_ports.py [--rounds 7] [--run matmul_1024_dram]

A shipped run is compiled once for each `port_scope`, and both programs are simulated in turn,
without values: what is measured is the time model alone. CPU seconds, medians and ratio over the
rounds; `bank` is the first of a pair in one round and the second in the next.

    python benchmarks/bench_ports.py --descriptors 16384

Two queues meet at one bank with so many descriptors each: of a byte, and of sizes that drift past
each other, so that one queue is refused again and again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import count
from pathlib import Path
from unittest import mock

import simpy

from systolic.compiler import compile_graph
from systolic.config import load_run
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate

RUNS = Path(__file__).resolve().parents[1] / "configs" / "runs"
SCOPES = ("bank", "partition")
SIZES = {"1 and 1": (1, 1), "4 and 8": (4, 8)}
"""Bytes of the descriptors of queue 0 and queue 1: a cycle of each, or a cycle and two."""


def compiled(run: str, scope: str) -> tuple[Chip, Program]:
    """Return the chip of a run with that port scope, and the program for it."""
    job = load_run(RUNS / f"{run}.toml", [f"chip.state_buffer.port_scope={scope}"])
    return job.chip, compile_graph(run, job.graph, job.chip, job.options).program


def seconds(chip: Chip, program: Program) -> float:
    """Return the CPU seconds of one simulation."""
    begun = time.process_time()
    simulate(chip, program, values=False)
    return time.process_time() - begun


def events(chip: Chip, program: Program) -> int:
    """Return the simpy events of one simulation."""
    steps, step = count(), simpy.Environment.step
    with mock.patch.object(simpy.Environment, "step", lambda env: (next(steps), step(env))[1]):
        simulate(chip, program, values=False)
    return next(steps)


def meeting(chip: Chip, sizes: tuple[int, int], count: int) -> Program:
    """Return two copies to partitions of one bank, a gap behind each of their descriptors."""
    parts = chip.state_buffer.partitions
    each = count // parts
    copies = []
    for queue, size in enumerate(sizes):
        target = Access(Buffer.STATE, "u8", 0, parts, queue << 12, ((size + 1, each), (1, size)))
        source = Access(Buffer.DRAM, "u8", 0, 1, queue << 28, ((1, parts * each * size),))
        copies.append(DmaCopy(dma_queue=queue, source=source, target=target))
    return Program("meeting", tuple(copies))


def of_descriptors(count: int) -> None:
    """Print what two queues cost that meet at a bank with so many descriptors each."""
    chip = load_run(RUNS / "transpose_multi_clock.toml", ["chip.dma.bytes_per_cycle=4"]).chip
    for name, sizes in SIZES.items():
        program = meeting(chip, sizes, count)
        found = simulate(chip, program, values=False).trace
        cost = statistics.median(seconds(chip, program) for _ in range(3))
        print(
            f"{name:14s}{events(chip, program):>8,} events{len(found.stalls):>8,} refusals"
            f"{cost * 1000:>10.1f} ms"
        )


def main() -> None:
    """Print cycles, events and seconds for both scopes, and the ratio of the seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--run", default="matmul_1024_dram")
    parser.add_argument("--descriptors", type=int, help="of two queues that meet, instead")
    chosen = parser.parse_args()
    if chosen.descriptors:
        of_descriptors(chosen.descriptors)
        return
    work = {scope: compiled(chosen.run, scope) for scope in SCOPES}
    for scope in SCOPES:
        cycles = simulate(*work[scope], values=False).trace.cycles()
        print(f"{scope:10s}{cycles:>10,} cycles{events(*work[scope]):>8,} events")
    taken: dict[str, list[float]] = {scope: [] for scope in SCOPES}
    for number in range(chosen.rounds):
        for scope in SCOPES if number % 2 else SCOPES[::-1]:
            taken[scope].append(seconds(*work[scope]))
    ratios = [p / b for b, p in zip(taken["bank"], taken["partition"], strict=True)]
    for scope in SCOPES:
        print(f"{scope:10s}{statistics.median(taken[scope]) * 1000:>10.1f} ms")
    print(f"partition : bank = {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
