"""How far ordinary work is from what must move: works drawn by seed, on all shipped chips.

A family is a function that draws a graph; `FAMILIES` has them by name. A work is drawn with its
number and the seed, so every work can be measured again alone. It is compiled with the judge that a
run uses, and simulated for its times; with --values it is checked too: by the program checker, and
bit for bit against the reference. Its number is the ratio of its cycles to the time of a copy's
latency and of the bytes that must move, through DRAM and through the DMA engines. A refused work is
a row with its line.

Without a seed the works of ordinary_works.csv are measured, against the denominators that stand
there for some chips, and on other chips against the same latency and bytes.

    nice -n 10 python benchmarks/bench_works.py [--seed 7] [--works 0:60] [--family elementwise]
        [--chip ideal_128x128] [--values] [--csv FILE]
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from random_works import FAMILIES, MOST_ELEMENTS, SMALL, SMALL_ELEMENTS, THIRDS, drawn

from systolic.bounds import run_bound
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
from systolic.workload import Graph

ALL = tuple(chips_of_one_core())


def ordinary_works() -> Iterator[tuple[str, dict[str, int], Graph]]:
    """Yield name, denominators in cycles by chip, and graph of each work of ordinary_works.csv."""
    with (Path(__file__).parent / "ordinary_works.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name, text = row.pop("name"), row.pop("run_file")
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "work.toml"
                path.write_text(text, encoding="utf-8")
                graph = load_run(path).graph
            yield name, {chip: int(cycles) for chip, cycles in row.items() if cycles}, graph


def bound_cycles(graph: Graph, chip: Chip) -> float:
    """Return the array's cycles of a copy's latency and of the bytes that must move.

    Of what is sliced or picked only the elements of the result count. Where `systolic.bounds` has
    more (the multiply-adds of a product, moves on the chip), that is taken.
    """
    least = run_bound(graph, chip).cycles
    if not any(tensor.home == "dram" for _, tensor in graph.tensors):
        return least
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
    return max(least, (latency + moving) * chip.period("dma") / chip.period("pe_array"))


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
    numbers = range(*map(int, given.works.split(":")))
    works = named_works(chips)
    if given.seed is not None:
        works = random_works(given.seed, numbers, chips, given.family or ())
    rows, ratios = [], []
    for number, (name, text, bound, graph) in works:
        begun, note, cycles = time.process_time(), "", 0
        try:
            cycles = measured(graph, chips[name], values=given.values, seed=number)
            ratios.append(cycles / bound if bound else 1.0)
        except (SystolicError, AssertionError) as error:  # a wrong value is a row as well
            note = f"{type(error).__name__}: {error}"[:160]
        ratio, spent = f"{cycles / max(1, bound):.2f}", f"{time.process_time() - begun:.1f}"
        rows.append((number, name, text[:110], cycles, round(bound), ratio, spent, note))
        sys.stdout.write(" | ".join(map(str, rows[-1])) + "\n")
        sys.stdout.flush()
    if given.csv:
        with given.csv.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    if ratios:
        median, tenths, worst = spread(ratios)
        sys.stdout.write(
            f"{len(rows)} works, {len(rows) - len(ratios)} refused or wrong; median "
            f"{median:.2f}, nine tenths {tenths:.2f}, worst {worst:.2f}\n"
        )


Work = tuple[int, tuple[str, str, float, Graph]]
"""Number, chip, text, bound and graph."""


def named_works(chips: Mapping[str, Chip]) -> Iterator[Work]:
    """Yield the works of ordinary_works.csv on some chips."""
    for number, (name, denominators, graph) in enumerate(ordinary_works()):
        for chip in chips:
            least = denominators.get(chip) or bound_cycles(graph, chips[chip])
            yield number, (chip, name, least, graph)


def random_works(
    seed: int, numbers: Iterable[int], chips: Mapping[str, Chip], families: Sequence[str] = ()
) -> Iterator[Work]:
    """Yield the works that a seed draws for some numbers.

    families: the families that works are drawn from; none: a third of the works from each.
    """
    for number in numbers:
        rng = Random(f"{seed} {number}")
        name = rng.choice(list(chips))
        most = SMALL_ELEMENTS if name in SMALL else MOST_ELEMENTS
        graph = drawn(rng, chips[name], families or rng.choice(THIRDS), most)
        yield number, (name, str(graph), bound_cycles(graph, chips[name]), graph)


def spread(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, nine tenths and the worst of some ratios."""
    found = sorted(ratios)
    return statistics.median(found), found[9 * len(found) // 10], found[-1]


if __name__ == "__main__":
    main()
