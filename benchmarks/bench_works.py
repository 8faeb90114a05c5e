"""How far ordinary work is from what must move: works drawn by seed, on all shipped chips.

A family is a function that draws a graph; `FAMILIES` has them by name. A work is drawn with its
number and the seed, so every work can be measured again alone. It is compiled with the judge that a
run uses, and simulated for its times; with --values it is checked too: by the program checker, and
bit for bit against the reference. Its number is the ratio of its cycles to the time of a copy's
latency and of the bytes that must move, through DRAM and through the DMA engines. A refused work is
a row with its line.

Without a seed the works of ordinary_works.csv are measured, against the denominators that stand
there for ideal_128x128, and on other chips against the same latency and bytes.

    nice -n 10 python benchmarks/bench_works.py [--seed 7] [--works 0:60] [--family elementwise]
        [--chip ideal_128x128] [--values] [--csv FILE]
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from systolic.compiler import compile_graph
from systolic.config import load_chip, load_run
from systolic.errors import SystolicError
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.spec import Chip
from systolic.isa import require_clean
from systolic.layout import Shape
from systolic.machine import simulate
from systolic.run.judge import judge_on
from systolic.run.tensors import graph_images, graph_results, initial_accesses
from systolic.run.verdict import graph_verdict
from systolic.shipped import CHIPS, chips_of_one_core
from systolic.workload import Graph, GraphBuilder

ALL = tuple(chips_of_one_core())
FLOATS, INTEGERS = ("f32", "bf16", "f16", "f8e4m3fn", "f8e5m2"), ("s8", "u8", "s32")
MOST_ELEMENTS, SMALL_ELEMENTS = 1 << 18, 1 << 12
SMALL = ("fetch_16x16", "ideal_4x4")
WANTED = {"median": 2, "nine tenths": 5, "worst": 15}


def _dims(rng: Random, most: int, least: int = 1) -> list[int]:
    """Return dimensions of rank 1 to 5, as often round as odd, of about `most` elements at most."""
    rank = rng.randint(least, 5)
    wanted = math.exp(rng.uniform(math.log(most / 512), math.log(most)))
    dims = []
    for left in range(rank, 0, -1):
        size = max(1, wanted ** (1 / left) * math.exp(rng.uniform(-1, 1)))
        size = 2 ** round(math.log2(size)) if rng.random() < 0.5 else round(size)
        dims.append(max(1, size))
        wanted /= dims[-1]
    return dims


def _layout(rng: Random, rank: int) -> str:
    """Return a layout: mostly row by row, at times another order or tiles."""
    order = list(range(rank - 1, -1, -1))
    kind = rng.random()
    if kind < 0.15:
        rng.shuffle(order)
    tiles = ":T(8,128)" if 0.15 <= kind < 0.3 and rank >= 2 else ""
    return "{" + ",".join(map(str, order)) + tiles + "}"


def _shape(rng: Random, dtype: str, dims: Sequence[int], like: str = "") -> str:
    return f"{dtype}[{','.join(map(str, dims))}]{like or (_layout(rng, len(dims)) if dims else '')}"


def _binary(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    dtype = rng.choice([*FLOATS, "s32", "s8"])
    like = _layout(rng, len(dims))
    operators = ["add", "subtract", "multiply", "max"]
    x = builder.tensor("x", _shape(rng, dtype, dims, like))
    kind = rng.random()
    given: dict[str, Any] = {}
    if kind < 0.5:
        y = builder.tensor("y", _shape(rng, dtype, dims, like if rng.random() < 0.8 else ""))
    else:
        axes = sorted(rng.sample(range(len(dims)), rng.randint(0, len(dims) - 1)))
        y = builder.tensor("y", _shape(rng, dtype, [dims[a] for a in axes]))
        given = {"broadcast_dimensions": tuple(axes)} if axes else {}
    out = _shape(rng, dtype, dims, like)
    builder.add("binary", (x, y), out, name="out", operator=rng.choice(operators), **given)
    return builder.graph()


def _unary(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    like = _layout(rng, len(dims))
    dtype = rng.choice(FLOATS)
    x = builder.tensor("x", _shape(rng, dtype, dims, like))
    if rng.random() < 0.6:
        function = rng.choice(["gelu", "ramp", "sigmoid", "tanh", "square"])
        out = _shape(rng, rng.choice([dtype, *FLOATS]), dims, like)
        builder.add("activation", (x,), out, name="out", function=function)
    else:
        out = _shape(rng, rng.choice([*FLOATS, *INTEGERS]), dims, like)
        builder.add("cast", (x,), out, name="out")
    return builder.graph()


def _slice(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    dtype = rng.choice([*FLOATS, *INTEGERS])
    x = builder.tensor("x", _shape(rng, dtype, dims))
    start, stop, step = [], [], []
    for size in dims:
        step.append(rng.choice([1, 1, 1, 2, 3]) if size > 3 else 1)
        start.append(rng.randint(0, size // 3) if rng.random() < 0.4 else 0)
        stop.append(rng.randint(max(start[-1] + 1, 2 * size // 3), size))
    out = [-(-(b - a) // s) for a, b, s in zip(start, stop, step, strict=True)]
    given = {"start": tuple(start), "stop": tuple(stop), "step": tuple(step)}
    builder.add("slice", (x,), _shape(rng, dtype, out), name="out", **given)
    return builder.graph()


def _concat(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    dtype, axis = rng.choice([*FLOATS, *INTEGERS]), rng.randrange(len(dims))
    names, total = [], 0
    for number in range(rng.randint(2, 3)):
        own = list(dims)
        own[axis] = max(1, round(dims[axis] * rng.uniform(0.2, 1.0)))
        total += own[axis]
        names.append(builder.tensor(f"x{number}", _shape(rng, dtype, own)))
    dims[axis] = total
    builder.add("concat", names, _shape(rng, dtype, dims), name="out", axis=axis)
    return builder.graph()


def _pad(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    dtype = rng.choice([*FLOATS, *INTEGERS])
    x = builder.tensor("x", _shape(rng, dtype, dims))
    low = [rng.randint(0, 2) if rng.random() < 0.5 else 0 for _ in dims]
    high = [rng.randint(0, 2) if rng.random() < 0.5 else 0 for _ in dims]
    out = [a + n + b for a, n, b in zip(low, dims, high, strict=True)]
    given = {"low": tuple(low), "high": tuple(high), "value": rng.choice([0.0, 1.0])}
    builder.add("pad", (x,), _shape(rng, dtype, out), name="out", **given)
    return builder.graph()


def _chain(rng: Random, most: int) -> Graph:
    """Draw two to four operations element by element, a select or a requantisation among them."""
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    like = _layout(rng, len(dims))
    dtype = rng.choice(["f32", "bf16"])
    now = builder.tensor("x", _shape(rng, dtype, dims, like))
    for number in range(rng.randint(2, 4)):
        out = _shape(rng, dtype, dims, like)
        kind = rng.choice(["binary", "activation", "bias", "scalar"])
        name = f"y{number}"
        if kind == "activation":
            now = builder.add("activation", (now,), out, name=name, function="gelu")
            continue
        given: dict[str, Any] = {"operator": rng.choice(["add", "multiply"])}
        axes = {"binary": range(len(dims)), "bias": [len(dims) - 1], "scalar": []}[kind]
        if 0 < len(axes) < len(dims):
            given["broadcast_dimensions"] = tuple(axes)
        other = builder.tensor(f"w{number}", _shape(rng, dtype, [dims[a] for a in axes]))
        now = builder.add("binary", (now, other), out, name=name, **given)
    return builder.graph()


def _select(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    like, dtype = _layout(rng, len(dims)), rng.choice([*FLOATS, *INTEGERS])
    p = builder.tensor("p", _shape(rng, "pred", dims, like))
    x, y = (builder.tensor(name, _shape(rng, dtype, dims, like)) for name in "xy")
    builder.add("select", (p, x, y), _shape(rng, dtype, dims, like), name="out")
    return builder.graph()


def _requantise(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most)
    like = _layout(rng, len(dims))
    x = builder.tensor("x", _shape(rng, rng.choice(["s32", "f32"]), dims, like))
    scales = builder.tensor("scales", f"f32[{dims[-1]}]" if rng.random() < 0.7 else "f32[]")
    out = _shape(rng, rng.choice(["s8", "u8"]), dims, like)
    builder.add("requantise", (x, scales), out, name="out")
    return builder.graph()


def _embedding(rng: Random, most: int) -> Graph:
    builder = GraphBuilder("dram")
    rows, columns = rng.randint(16, 500), rng.choice([16, 33, 64, 128])
    dtype = rng.choice([*FLOATS, "s8"])
    x = builder.tensor("x", _shape(rng, dtype, [rows, columns], "{1,0}"))
    picked = tuple(rng.randrange(rows) for _ in range(rng.randint(4, 64)))
    out = f"{dtype}[{len(picked)},{columns}]"
    builder.add("embedding", (x,), out, name="out", indices=picked)
    return builder.graph()


def _reduce(rng: Random, most: int) -> Graph:
    builder, dims = GraphBuilder("dram"), _dims(rng, most, 2)
    dtype = rng.choice(["f32", "bf16", "s8"])
    x = builder.tensor("x", _shape(rng, dtype, dims))
    axes = sorted(rng.sample(range(len(dims)), rng.randint(1, len(dims) - 1)))
    kept = [size for axis, size in enumerate(dims) if axis not in axes]
    out = _shape(rng, "s32" if dtype == "s8" else dtype, kept)
    name = rng.choice(["max", "sum"] if dtype == "s8" else ["max", "sum", "mean"])
    builder.add("reduce", (x,), out, name="out", reduction=name, axes=tuple(axes))
    return builder.graph()


def _pool(rng: Random, most: int) -> Graph:
    builder = GraphBuilder("dram")
    small = most <= SMALL_ELEMENTS
    side = rng.choice([7, 14, 28]) if small else rng.choice([14, 28, 56, 112])
    maps = rng.choice([2, 4]) if small else rng.choice([3, 16, 32, 64])
    dtype = rng.choice(["f32", "bf16", "s8"])
    like = rng.choice(["{3,2,1,0}", "{2,1,3,0}"])
    window, stride = rng.choice([(2, 2), (3, 2), (3, 1)])
    x = builder.tensor("x", f"{dtype}[1,{side},{side},{maps}]{like}")
    made = (side - window) // stride + 1
    given: dict[str, Any] = {"window": (window, window), "stride": (stride, stride)}
    out = f"{dtype}[1,{made},{made},{maps}]{like}"
    builder.add("pool", (x,), out, name="out", reduction=rng.choice(["max", "max", "sum"]), **given)
    return builder.graph()


FAMILIES: dict[str, Sequence[Callable[[Random, int], Graph]]] = {
    "elementwise": (_binary, _binary, _unary, _chain, _select, _requantise),
    "structural": (_slice, _slice, _concat, _pad, _embedding),
    "reduced": (_reduce, _pool),
}
"""What draws a work; later ones: moves, convolutions, norms."""


NEEDED = {"select": "copy_predicated", "requantise": "requantise"}
"""Operations that need an instruction that not every chip has."""


def drawn(rng: Random, chip: Chip, families: Sequence[str], most: int) -> Graph:
    """Return a graph of some families that the chip has the instructions for."""
    able = {word for engine in chip.lane_engines.values() for word in engine.does}
    while True:
        graph = rng.choice(FAMILIES[rng.choice(families)])(rng, most)
        if all(
            NEEDED.get(op.kind, op.kind) in able or op.kind not in NEEDED for op in graph.operations
        ):
            return graph


def ordinary_works() -> Iterator[tuple[str, int, Graph]]:
    """Yield name, denominator on ideal_128x128 and graph of each work of ordinary_works.csv."""
    with (Path(__file__).parent / "ordinary_works.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "work.toml"
                path.write_text(row["run_file"], encoding="utf-8")
                yield row["name"], int(row["denominator_cycles"]), load_run(path).graph


def bound_cycles(graph: Graph, chip: Chip) -> float:
    """Return the array's cycles of a copy's latency and of the bytes that must move.

    Of what is sliced or picked only the elements of the result count.
    """
    sizes = {n: _bytes(graph.shape(n)) for n in (*graph.inputs, *graph.outputs)}
    for op in graph.operations:
        if op.kind in ("slice", "take"):
            taken = graph.shape(op.output).num_elements() * _element_bytes(graph, op.inputs[0])
            sizes[op.inputs[0]] = min(sizes[op.inputs[0]], taken)
    read, written = (sum(sizes[n] for n in names) for names in (graph.inputs, graph.outputs))
    moves = all(op.kind in ("slice", "concat", "pad", "take") for op in graph.operations)
    through = max(read, written) if moves else read + written
    engines = chip.dma.bytes_per_cycle * chip.dma.engine_count
    rate = min(chip.dram.bytes_per_cycle, dram_rate(chip, chip.dma.queues))
    if chip.dram.organisation is None:
        rate = chip.dram.bytes_per_cycle
    moving = max((read + written) / rate, through / engines)
    latency = chip.dma.latency_cycles + chip.dram.latency_cycles
    return (latency + moving) * chip.period("dma") / chip.period("pe_array")


def _element_bytes(graph: Graph, name: str) -> float:
    return graph.shape(name).element_bits / 8


def _bytes(shape: Shape) -> int:
    return -(-shape.num_elements() * shape.element_bits // 8)


def _values(rng: np.random.Generator, shape: Shape) -> np.ndarray[Any, Any]:
    if shape.element_type == "pred":
        return rng.integers(0, 2, shape.dims).astype(shape.dtype)
    if shape.dtype.kind in "iu":
        low = 0 if shape.dtype.kind == "u" else -100
        return rng.integers(low, 100, shape.dims).astype(shape.dtype)
    return np.asarray(rng.standard_normal(shape.dims, dtype=np.float32)).astype(shape.dtype)


def measured(graph: Graph, chip: Chip, *, values: bool, seed: int) -> int:
    """Return the cycles of a work; with values it is checked too.

    Raises SystolicError if it is refused, AssertionError if a value is wrong.
    """
    compiled = compile_graph("work", graph, chip, judge=judge_on(chip), verify=values)
    if not values:
        return simulate(chip, compiled.program, values=False).trace.cycles()
    require_clean(compiled.program, chip, initial_accesses(compiled))
    numbers = np.random.default_rng(seed)
    inputs = {name: _values(numbers, graph.shape(name)) for name in graph.inputs}
    outcome = simulate(chip, compiled.program, graph_images(compiled, inputs))
    verdict = graph_verdict(compiled, chip, inputs, graph_results(compiled, outcome.memory))
    assert verdict["equal"], verdict["wrong"]
    return outcome.trace.cycles()


def main() -> None:
    """Measure works and say how they are distributed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="draw works by this seed (default: the named)")
    parser.add_argument("--works", default="0:60")
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--chip", choices=ALL, action="append")
    parser.add_argument("--values", action="store_true")
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    chips = {name: load_chip(CHIPS / f"{name}.toml") for name in given.chip or ALL}
    works = _named(chips) if given.seed is None else _random(given, chips)
    rows, ratios = [], []
    for number, (name, text, bound, graph) in works:
        begun, note, cycles = time.process_time(), "", 0
        try:
            cycles = measured(graph, chips[name], values=given.values, seed=number)
            ratios.append(cycles / bound)
        except (SystolicError, AssertionError) as error:  # a wrong value is a row as well
            note = f"{type(error).__name__}: {error}"[:160]
        ratio, spent = f"{cycles / bound:.2f}", f"{time.process_time() - begun:.1f}"
        rows.append((number, name, text[:110], cycles, round(bound), ratio, spent, note))
        sys.stdout.write(" | ".join(map(str, rows[-1])) + "\n")
        sys.stdout.flush()
    if given.csv:
        with given.csv.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    if ratios:
        ratios.sort()
        tenths = ratios[min(len(ratios) - 1, 9 * len(ratios) // 10)]
        sys.stdout.write(
            f"{len(rows)} works, {len(rows) - len(ratios)} refused or wrong; median "
            f"{statistics.median(ratios):.2f}, nine tenths {tenths:.2f}, worst {ratios[-1]:.2f}\n"
        )


Work = tuple[int, tuple[str, str, float, Graph]]
"""Number, chip, text, bound and graph."""


def _named(chips: Mapping[str, Chip]) -> Iterator[Work]:
    for number, (name, denominator, graph) in enumerate(ordinary_works()):
        for chip in chips:
            own = chip == "ideal_128x128"
            yield (
                number,
                (chip, name, denominator if own else bound_cycles(graph, chips[chip]), graph),
            )


def _random(given: argparse.Namespace, chips: Mapping[str, Chip]) -> Iterator[Work]:
    first, stop = map(int, given.works.split(":"))
    for number in range(first, stop):
        rng = Random(f"{given.seed} {number}")
        name = rng.choice(list(chips))
        most = SMALL_ELEMENTS if name in SMALL else MOST_ELEMENTS
        graph = drawn(rng, chips[name], given.family or list(FAMILIES), most)
        yield number, (name, str(graph), bound_cycles(graph, chips[name]), graph)


if __name__ == "__main__":
    main()
