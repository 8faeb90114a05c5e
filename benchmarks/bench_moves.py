"""How far moves and batched products are from their bounds: 300 random works on shipped chips.

A work is a relayout, a permutation, a reshape or a batched product of shapes that XLA programs
have, its largest tensor 0.5 to 4 MiB, in DRAM or in the state buffer, a third of its layouts in the
formats that a TPU uses. It is compiled, checked and simulated for its times. A work's number is the
seed that it is drawn with. Chips are drawn evenly, but for the two that are smaller than every
tensor here: each has one in 50 works. A work that takes more than 20 s of processor time is given
up and recorded so, and a refused work with its line. The rows replace those of the same works in
the file, which is saved after each work, so that a long sample can be measured in pieces. Counts
are the same every time, seconds are not.

Without --works the first ten are measured, a minute or so; all of them take most of an hour.

    nice -n 10 python benchmarks/bench_moves.py [--works 0:300] [--csv FILE]
"""

from __future__ import annotations

import argparse
import csv
import math
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Literal

import systolic
from systolic.errors import SystolicError
from systolic.layout import Shape
from systolic.layout.tpu_formats import tpu_format
from systolic.shipped import chips_of_one_core
from systolic.workload import Graph, GraphBuilder

ROOT = Path(__file__).resolve().parent.parent
WORKS, QUICK = 300, 10
MIB = 1 << 20
LEAST_BYTES, MOST_BYTES = MIB // 2, 4 * MIB
LIMIT_S = 20.0
MEDIAN, WORST = 1.5, 8
"""The wanted ratios."""
AT_REST = ("idle", "waiting for", "stalled by")
FULL = 0.9
"""The part of a run from which on a unit counts as busy all the time."""
OVER, REFUSED, NO_BOUND = f"over {LIMIT_S:.0f} s", "refused", "bound 0"
PARTS = {0.25: "25%", 0.5: "median", 0.75: "75%", 0.9: "90%", 1.0: "worst"}
TINY = ("fetch_16x16", "ideal_4x4")  # state buffers of 256 KiB and 64 KiB
TINY_EVERY = 50
LARGE = tuple(name for name in chips_of_one_core() if name not in TINY)
HOMES: tuple[Literal["dram"], Literal["state_buffer"]] = ("dram", "state_buffer")
KINDS = ("relayout", "transpose", "reshape", "matmul")
TYPES = ("f32", "bf16", "bf16", "f16", "s8", "s8", "u8", "s32", "pred")
SUMS = {"f32": ("f32",), "bf16": ("f32", "bf16"), "f16": ("f32", "f16"), "s8": ("s32",)}


@dataclass(frozen=True, slots=True)
class Work:
    """A graph of one operation with its name, a chip, and where the tensors lie."""

    number: int
    text: str
    graph: Graph
    chip: str
    home: str


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the file: cycles and bound are empty if the work did not end, `note` says why.

    `bound` is that of the commit at which the sample was begun (71741b12). A run that is as short
    has a ratio of 1, also one in which nothing moves: 0 of 0 cycles. A longer run whose bound is 0
    has none. busy: the part of the run in which the busiest unit does something, and neither waits
    nor is stalled.
    """

    number: int
    work: str
    chip: str
    home: str
    cycles: int | None
    bound: int | None
    ratio: float | None
    busiest: str
    busy: float | None
    cpu_s: float
    note: str


class TooLong(Exception):  # noqa: N818 (it ends a work, it is no error)
    """A work has used its processor time."""


def _dims(rng: Random) -> tuple[int, ...]:
    """Return the dimensions of an activation, of heads, of images, of a matrix or of weights."""
    batch, tokens = rng.choice([1, 2, 4, 8, 16]), rng.choice([77, 128, 197, 256, 384, 512, 1024])
    heads, deep = rng.choice([8, 12, 16]), rng.choice([64, 80, 96, 128])
    side, maps = rng.choice([7, 14, 28, 56, 112]), rng.choice([3, 16, 32, 64, 96, 128, 256, 512])
    wide = [rng.choice([320, 512, 768, 1000, 1024, 1280, 2048, 3072, 4096]) for _ in range(2)]
    return rng.choice([
        (batch, tokens, wide[0]),
        (batch, tokens, heads, deep),
        (batch, heads, tokens, deep),
        (batch, heads, tokens, tokens),
        (batch, side, side, maps),
        (batch, maps, side, side),
        (wide[0], wide[1]),
        (3, 3, maps, rng.choice([64, 128, 256, 512])),
    ])  # fmt: skip


def _sized(rng: Random, dtype: str) -> tuple[int, ...]:
    """Return dimensions of a tensor of 0.5 to 4 MiB."""
    while True:
        dims = _dims(rng)
        if LEAST_BYTES <= _bytes(dtype, dims) <= MOST_BYTES:
            return dims


def _bytes(dtype: str, dims: Sequence[int]) -> int:
    return math.prod(dims) * Shape(dtype, ()).element_bits // 8


def _shape(rng: Random, dtype: str, dims: Sequence[int]) -> Shape:
    """Return a shape row by row, with its dimensions in any order, or in a format of a TPU."""
    order = list(range(len(dims) - 1, -1, -1))
    if rng.random() < 0.5:
        rng.shuffle(order)
    if rng.random() < 1 / 3:
        bits = 1 if dtype == "pred" and rng.random() < 0.5 else None
        return tpu_format(dtype, dims, minor_to_major=order, element_bits=bits)
    return Shape.parse(f"{dtype}[{','.join(map(str, dims))}]{{{','.join(map(str, order))}}}")


def _text(shape: Shape) -> str:
    """Return the text of a shape, without a layout that is row by row."""
    rows = Shape(shape.element_type, shape.dims)
    return str(shape).split("{")[0] if shape == rows else str(shape)


def _reshaped(rng: Random, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return dimensions of as many elements: two neighbours as one, or one as heads of its own."""
    at = rng.randrange(len(dims))
    parts = [n for n in (8, 12, 14, 16, 64, 80) if dims[at] % n == 0 and dims[at] > n]
    if parts and (len(dims) == 2 or rng.random() < 0.5):
        part = rng.choice(parts)
        return (*dims[:at], dims[at] // part, part, *dims[at + 1 :])
    at = min(at, len(dims) - 2)
    return (*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :])


def _move(rng: Random, kind: str, builder: GraphBuilder) -> str:
    """Add a move of a tensor, and return its name."""
    dtype = rng.choice(TYPES)
    source = _shape(rng, dtype, _sized(rng, dtype))
    builder.tensor("x", source)
    dims = _reshaped(rng, source.dims) if kind == "reshape" else source.dims
    if kind != "transpose":
        while (out := _shape(rng, dtype, dims)) == source:
            pass  # a relayout changes the layout
        builder.add(kind, ("x",), out, name="y")
        return f"{kind} {_text(source)} to {_text(out)}"
    axes = list(range(len(dims)))
    while axes == sorted(axes):
        rng.shuffle(axes)
    out = _shape(rng, dtype, [dims[axis] for axis in axes])
    builder.transpose("x", out, tuple(axes), name="y")
    return f"{kind} {_text(source)} to {_text(out)} by {' '.join(map(str, axes))}"


def _product(rng: Random, builder: GraphBuilder) -> str:
    """Add a batched product as of attention, whose largest tensor has 0.5 to 4 MiB."""
    dtype = rng.choice(list(SUMS))
    total = rng.choice(SUMS[dtype])
    while True:
        batch = rng.choice([(8,), (12,), (16,), (32,), (96,), (2, 12), (4, 8), (8, 12)])
        M, K, N = (rng.choice([64, 80, 96, 128, 197, 256, 384, 512]) for _ in range(3))
        sides = {"x": (dtype, (M, K)), "w": (dtype, (K, N)), "y": (total, (M, N))}
        most = max(_bytes(each, (*batch, *side)) for each, side in sides.values())
        if LEAST_BYTES <= most <= MOST_BYTES:
            break
    x, w, y = (_shape(rng, each, (*batch, *side)) for each, side in sides.values())
    builder.tensor("x", x)
    builder.tensor("w", w)
    builder.matmul("x", "w", y, name="y")
    return f"matmul {_text(x)} x {_text(w)} to {_text(y)}"


def drawn(number: int) -> Work:
    """Return the work of a number."""
    rng = Random(number)
    tiny = number % (TINY_EVERY // len(TINY)) == 0
    chip = TINY[number // (TINY_EVERY // len(TINY)) % len(TINY)] if tiny else rng.choice(LARGE)
    home, kind = rng.choice(HOMES), rng.choice(KINDS)
    builder = GraphBuilder(home=home)
    text = _product(rng, builder) if kind == "matmul" else _move(rng, kind, builder)
    return Work(number, text, builder.graph(), chip, home)


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise TooLong


def measured(work: Work, limit_s: float | None = LIMIT_S, bound: int | None = None) -> Row:
    """Compile and simulate a work, and return its row, which says so if the work took too long.

    limit_s: seconds of CPU; None for no limit. bound: what the ratio is to, written down once, so
    that other bounds change no row.
    """
    cycles = ratio = busy = None
    busiest = note = ""
    signal.signal(signal.SIGPROF, _give_up)
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit_s or 0)
    try:
        summary = systolic.run(work.graph, work.chip, values=False).summary
        cycles = summary["cycles"]
        bound = summary["bound"]["cycles"] if bound is None else bound
        ratio = 1.0 if cycles == bound else round(cycles / bound, 2) if bound else None
        busiest, busy = _busiest(summary["units"]) if cycles else ("", None)
        note = "" if ratio is not None else NO_BOUND
    except TooLong:
        bound, note = None, OVER
    except SystolicError as error:
        bound, note = None, f"{REFUSED}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    spent = round(time.process_time() - begin, 2)
    return Row(
        work.number, work.text, work.chip, work.home,
        cycles, bound, ratio, busiest, busy, spent, note,
    )  # fmt: skip


def _busiest(units: dict[str, Any]) -> tuple[str, float]:
    """Return the unit that does something for the largest part of a run, and that part."""
    parts = {
        name: sum(n for label, n in unit["labels"].items() if not label.startswith(AT_REST))
        / unit["total"]
        for name, unit in units.items()
    }
    busiest = max(parts, key=lambda name: parts[name])
    return busiest, round(parts[busiest], 2)


def read(file: Path) -> dict[int, Row]:
    """Return the rows of a file by their works; none if there is no file."""
    if not file.exists():
        return {}
    with file.open(newline="") as lines:
        rows = [_row(line) for line in csv.DictReader(lines)]
    return {row.number: row for row in rows}


def _row(line: dict[str, str]) -> Row:
    return Row(
        int(line["number"]), line["work"], line["chip"], line["home"],
        int(line["cycles"]) if line["cycles"] else None,
        int(line["bound"]) if line["bound"] else None,
        float(line["ratio"]) if line["ratio"] else None,
        line["busiest"], float(line["busy"]) if line["busy"] else None,
        float(line["cpu_s"]), line["note"],
    )  # fmt: skip


def write(rows: dict[int, Row], file: Path) -> None:
    """Save the rows, in the order of their works."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, [f.name for f in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(rows[number]) for number in sorted(rows))


def spread(name: str, rows: Sequence[Row]) -> str:
    """Return a row of the table: how some works ended, and the distribution of their ratios."""
    ratios = sorted(row.ratio for row in rows if row.ratio is not None)
    without = Counter(row.note.split(":")[0] for row in rows)
    told = [name, len(rows), without[OVER], without[REFUSED], without[NO_BOUND], len(ratios)]
    told += [sum(ratio <= WORST for ratio in ratios)] if ratios else [""]
    far = [row for row in rows if row.ratio is not None and row.ratio > MEDIAN]
    full = sum(row.busy is not None and row.busy >= FULL for row in far)
    at = [ratios[math.ceil(part * len(ratios)) - 1] if ratios else None for part in PARTS]
    shown = ["" if ratio is None else f"{ratio:,.2f}" for ratio in at]
    return f"| {' | '.join([*map(str, told), *shown, f'{full} of {len(far)}'])} |"


def tiles(number: int) -> str:
    """Return whether a tensor of a work has tiles, and whether they stand over its edges."""
    graph = drawn(number).graph
    shapes = [graph.shape(name) for name in (*graph.inputs, *graph.outputs)]
    if any(shape.padded_elements() > shape.num_elements() for shape in shapes):
        return "tiles with padding"
    return "tiles, no padding" if any(shape.layout.tiles for shape in shapes) else "no tiles"


def table(rows: Sequence[Row]) -> list[str]:
    """Return the distribution of the ratios, in all, and by kind, tiles, home and chip."""
    heads = ["works", "number", OVER, REFUSED, NO_BOUND, "ratios", f"within {WORST}"]
    heads += [*PARTS.values(), f"above {MEDIAN}, a unit {FULL:.0%} busy"]
    lines = [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1), spread("all", rows)]
    kinds, tiled = [row.work.split()[0] for row in rows], [tiles(row.number) for row in rows]
    for names in (kinds, tiled, [row.home for row in rows], [row.chip for row in rows]):
        for name in sorted(set(names)):
            group = [row for row, of in zip(rows, names, strict=True) if of == name]
            lines.append(spread(name, group))
    return lines


def worst(rows: Sequence[Row]) -> list[str]:
    """Return the ten works that are farthest from their bounds."""
    ratios = [row for row in rows if row.ratio is not None]
    ratios.sort(key=lambda row: row.ratio or 0.0, reverse=True)
    return [
        f"| {row.number} | {row.work} | {row.chip}, {row.home} | {row.cycles:,} | {row.bound:,} "
        f"| {row.ratio:,.1f} |"
        for row in ratios[:10]
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, save and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--works", default=f"0:{QUICK}", help=f"FIRST:END, of {WORKS}")
    parser.add_argument("--csv", type=Path, default=ROOT / "out" / "bench_moves.csv")
    given = parser.parse_args(argv)
    rows = read(given.csv)
    for number in range(*map(int, given.works.split(":"))):
        kept = rows.get(number)
        rows[number] = measured(drawn(number), bound=kept.bound if kept else None)
        write(rows, given.csv)
    found = list(rows.values())
    print("\n".join([*table(found), "", *worst(found)]))


if __name__ == "__main__":
    main()
