"""How fast do layouts move data? Ratios to ``np.copyto`` of the same bytes in the same run.

    python benchmarks/bench_layout.py [--rounds 7] [--numpy] [--markdown]

Rounds are interleaved (copy, pack, unpack, copy, ...) so that a slow spell of the machine hits all
alike; each figure is the best of its rounds. Buffers are allocated before and reused. ``--numpy``
measures without numba. Exits with 1 where a target of docs/layouts.md is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from systolic.layout import Shape, pack, unpack
from systolic.layout.packing import kernels

UNPACK_FACTOR = 1.5
INDEX_TARGET_MS = 50.0


@dataclass(frozen=True)
class Case:
    """A shape and the most its packing may cost, as a multiple of copying its bytes."""

    text: str
    target: float | None


CASES = (
    Case("f32[4096,4096]{1,0:T(8,128)}", 2.0),
    Case("f32[4001,4001]{1,0:T(8,128)}", 2.5),
    Case("bf16[4096,4096]{1,0:T(8,128)(2,1)}", 5.0),
    Case("s8[4096,4096]{1,0:T(8,128)(4,1)}", 10.0),
    Case("pred[4096,4096]{1,0:T(32,128)(32,1)E(1)}", 20.0),
    Case("bf16[4001,4001]{1,0:T(8,128)(2,1)}", None),
    Case("s4[4096,4096]{1,0:T(8,128)(8,1)E(4)}", None),
    Case("f32[4096,4096]{0,1:T(8,128)}", None),
)


def best_ms(rounds: int, *actions: Callable[[], object]) -> list[float]:
    """Return the best time of each action, taking turns."""
    best = [float("inf")] * len(actions)
    for _ in range(rounds):
        for number, action in enumerate(actions):
            begun = time.perf_counter()
            action()
            best[number] = min(best[number], (time.perf_counter() - begun) * 1e3)
    return best


def measure(case: Case, rounds: int) -> tuple[float, float, float]:
    """Return milliseconds of copying, packing and unpacking one case."""
    shape = Shape.parse(case.text)
    source = np.random.default_rng(1).integers(0, 2, shape.dims, np.uint8).astype(shape.dtype)
    memory, back = pack(source, shape), np.empty_like(source)
    plain, copied = source.view(np.uint8), np.empty_like(source.view(np.uint8))
    unpack(memory, shape, back, copy=True)  # numba compiles here, not in the figures
    if not np.array_equal(back.view(np.uint8), plain):
        raise AssertionError(f"{case.text}: unpack does not undo pack")
    copy, packing, unpacking = best_ms(
        rounds,
        lambda: np.copyto(copied, plain),
        lambda: pack(source, shape, out=memory),
        lambda: unpack(memory, shape, back, copy=True),
    )
    return copy, packing, unpacking


def index_ms(rounds: int) -> float:
    """Return milliseconds of a million linear indices in a two-level layout."""
    shape = Shape.parse("bf16[4096,4096]{1,0:T(8,128)(2,1)}")
    index = list(np.random.default_rng(2).integers(0, 4096, (2, 1_000_000)))
    return best_ms(rounds, lambda: shape.linear_index(index))[0]


def row(case: Case, times: tuple[float, float, float], markdown: bool) -> tuple[str, bool]:
    """Return a line of the table, and whether the targets are met."""
    copy, packing, unpacking = times
    ratios = packing / copy, unpacking / copy
    limits = (case.target, case.target and case.target * UNPACK_FACTOR)
    met = all(limit is None or ratio <= limit for ratio, limit in zip(ratios, limits, strict=True))
    cells = [f"`{case.text}`" if markdown else case.text, f"{copy:.2f}"]
    for time_ms, ratio, limit in zip((packing, unpacking), ratios, limits, strict=True):
        cells += [f"{time_ms:.2f}", f"{ratio:.1f}", "-" if limit is None else f"{limit:g}"]
    if markdown:
        return "| " + " | ".join(cells) + " |", met
    return f"{cells[0]:46s}" + "".join(f"{cell:>9s}" for cell in cells[1:]), met


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--numpy", action="store_true", help="without numba")
    options.add_argument("--markdown", action="store_true")
    chosen = options.parse_args()
    if chosen.numpy:
        kernels.WORTH_COMPILING = 2**62
    heads = ["shape", "copy ms", "pack ms", "ratio", "at most", "unpack ms", "ratio", "at most"]
    if chosen.markdown:
        print("| " + " | ".join(heads) + " |")
        print("|---" + "|---:" * (len(heads) - 1) + "|")
    else:
        print(f"{heads[0]:46s}" + "".join(f"{head:>9s}" for head in heads[1:]))
    all_met = True
    for case in CASES:
        line, met = row(case, measure(case, chosen.rounds), chosen.markdown)
        print(line, flush=True)
        all_met &= met
    taken = index_ms(chosen.rounds)
    print(f"\nlinear_index of a million indices: {taken:.1f} ms (at most {INDEX_TARGET_MS:g} ms)")
    return 0 if all_met and taken <= INDEX_TARGET_MS else 1


if __name__ == "__main__":
    sys.exit(main())
