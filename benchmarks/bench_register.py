"""The register engine beside a bare numpy step of the same planes, as ratios of their rates.

Both run in turns in this process; medians of the rounds. What is compared is cycles per second on
a full 128 x 128 array: `stream` is long multiplies with the same weights, `load` steady pairs of a
load and a multiply of as many cycles, so that weights travel in every cycle. Run as a script.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from systolic.hw.spec import Chip, Dma, Dram, PEArray, ResultBuffer, StateBuffer
from systolic.isa import Access, Buffer, LoadWeights, MatMul, Program
from systolic.machine.memory import Image, Memory
from systolic.machine.register import run_register
from systolic.trace.recorder import Recorder

SIDE = 128
STREAM_VECTORS = 2048
STREAMS = 24
PAIRS = 384
BANK_BYTES = 16384
ROUNDS = 7
APART = 272
"""Words between planes: planes a power of two apart share cache sets and run at a quarter of the
speed, which would flatter the engine."""
GOALS = {"stream": 1 / 2, "load": 1 / 3}


def chip(dtype: str) -> Chip:
    """Return an array of SIDE x SIDE whose operands, weights and results lie in banks apart."""
    return Chip(
        name="bench",
        clock={"core": 1000},
        state_buffer=StateBuffer(partitions=SIDE, bytes_per_partition=4 * BANK_BYTES, banks=4),
        pe_array=PEArray(rows=SIDE, cols=SIDE, cycles_per_vector={dtype: 1}),
        result_buffer=ResultBuffer(banks=2, bank_bytes=BANK_BYTES),
        dma=Dma(bytes_per_cycle=64),
        dram=Dram(size_bytes=4096, bytes_per_cycle=64),
    )


def access(buffer: Buffer, dtype: str, start: int, count: int) -> Access:
    """Return `count` elements of every partition."""
    return Access(buffer, dtype, 0, SIDE, start, ((1, count),))


def program(dtype: str, kind: str) -> Program:
    """Return one load and long multiplies, or pairs of load and multiply of equal length."""
    vectors = STREAM_VECTORS if kind == "stream" else SIDE
    load = LoadWeights(weights=access(Buffer.STATE, dtype, 0, SIDE))
    multiply = MatMul(
        moving=access(Buffer.STATE, dtype, BANK_BYTES, vectors),
        result=access(Buffer.RESULT, dtype, 0, vectors),
    )
    if kind == "stream":
        return Program(kind, (load, *[multiply] * STREAMS))
    return Program(kind, (load, multiply) * PAIRS)


def engine_rate(dtype: str, kind: str) -> float:
    """Return cycles per second of the register engine, set-up not counted."""
    here, code = chip(dtype), program(dtype, kind)
    values = np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE) % 7
    image = Image(access(Buffer.STATE, dtype, 0, SIDE), values.astype(_numpy(dtype)))
    memory = Memory(here, code, [image])
    recorder = Recorder(here.units)
    started = time.perf_counter()
    trace = run_register(here, code, memory, recorder)
    return trace.ticks / (time.perf_counter() - started)


def bare_rate(dtype: str, cycles: int = 16384) -> float:
    """Return cycles per second of shift, multiply and add alone, all planes preallocated."""
    size = SIDE * SIDE
    pool = np.ones((6, size + APART), _numpy(dtype))[:, :size]
    x, s, weight, product = pool[:2], pool[2:4], pool[4], pool[5]
    turns = [
        (x[a][1:], x[b][:-1], x[a], s[a][SIDE:], product[SIDE:], s[b][:-SIDE])
        for a, b in ((0, 1), (1, 0))
    ]
    started = time.perf_counter()
    with np.errstate(all="ignore"):
        for cycle in range(cycles):
            to, shifted, moving, total, products, above = turns[cycle & 1]
            np.copyto(to, shifted)
            np.multiply(moving, weight, product)
            np.add(above, products, total)
    return cycles / (time.perf_counter() - started)


def _numpy(dtype: str) -> type[np.float32] | type[np.int32]:
    return np.float32 if dtype == "f32" else np.int32


def ratio(rate: Callable[[], float], bare: Callable[[], float]) -> tuple[float, float, float]:
    """Return the median of rate over bare, and both medians, measured in turns."""
    pairs = [(rate(), bare()) for _ in range(ROUNDS)]
    rates, bares = ([pair[i] for pair in pairs] for i in (0, 1))
    ratios = [one / other for one, other in pairs]
    return statistics.median(ratios), statistics.median(rates), statistics.median(bares)


def main() -> None:
    for dtype in ("f32", "s32"):
        for kind, goal in GOALS.items():
            found, own, bare = ratio(partial(engine_rate, dtype, kind), partial(bare_rate, dtype))
            verdict = "ok" if found >= goal else "MISSED"
            print(
                f"{dtype} {kind:6}  {own / 1e3:7.1f} kcycles/s, bare {bare / 1e3:7.1f}, "
                f"ratio {found:.2f} (goal {goal:.2f}) {verdict}"
            )


if __name__ == "__main__":
    main()
