"""How long compiling takes, by instruction: networks, a large product, layers of transformers.

Each line is a process of its own, whose seconds are of its processor time; a small product is
compiled before. Graphs are compiled as a run does it, with the judge of plans. "four to one" is how
many times longer four equal layers take than one. Wanted: 60, 15 and 20 microseconds for ResNet-50,
the product and the layer of 2,048 tokens, and at most 1.4 times for four layers.

    python benchmarks/bench_compile_time.py [WORK ...]
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from systolic.compiler import compile_graph
from systolic.config import load_chip, load_run
from systolic.run.judge import judge_on
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

NETWORKS = Path(__file__).resolve().parent.parent / "configs" / "networks"


def product(size: int) -> Graph:
    """Return a product of two square matrices."""
    builder, shape = GraphBuilder("dram"), f"bf16[{size},{size}]"
    builder.matmul(builder.tensor("x", shape), builder.tensor("w", shape), shape, name="y")
    return builder.graph()


def layers(count: int, tokens: int, wide: int, heads: int, inner: int) -> Graph:
    """Return equal layers like Llama's, whose rotations are left out."""
    builder = GraphBuilder("dram")
    x, deep = builder.tensor("x", f"bf16[{tokens},{wide}]"), wide // heads
    for number in range(count):
        x = _layer(builder, f"{number}", x, (tokens, wide, heads, deep, inner))
    return builder.graph()


def _layer(builder: GraphBuilder, own: str, x: str, sizes: tuple[int, ...]) -> str:
    """Add attention and a gated feed-forward layer, each behind a norm and beside a sum."""
    tokens, wide, heads, deep, inner = sizes
    rows, inside = f"bf16[{tokens},{wide}]", f"bf16[{tokens},{inner}]"

    def weights(name: str, shape: str) -> str:
        return builder.tensor(f"{name}_{own}", shape)

    normed = builder.add("rms_norm", (x, weights("before", f"f32[{wide}]")), rows)
    by_head = []
    for name, axes in (("query", (1, 0, 2)), ("key", (1, 2, 0)), ("value", (1, 0, 2))):
        made = builder.matmul(normed, weights(name, f"bf16[{wide},{wide}]"), rows)
        split = builder.add("reshape", (made,), f"bf16[{tokens},{heads},{deep}]")
        dims = ",".join(str((tokens, heads, deep)[axis]) for axis in axes)
        by_head.append(builder.transpose(split, f"bf16[{dims}]", axes))
    query, key, value = by_head
    scores = builder.matmul(query, key, f"f32[{heads},{tokens},{tokens}]")
    parts = builder.add("softmax", (scores,), f"bf16[{heads},{tokens},{tokens}]")
    seen = builder.matmul(parts, value, f"bf16[{heads},{tokens},{deep}]")
    seen = builder.transpose(seen, f"bf16[{tokens},{heads},{deep}]", (1, 0, 2))
    seen = builder.matmul(
        builder.add("reshape", (seen,), rows), weights("output", f"bf16[{wide},{wide}]"), rows
    )
    x = builder.add("binary", (seen, x), rows, operator="add")
    normed = builder.add("rms_norm", (x, weights("behind", f"f32[{wide}]")), rows)
    up = builder.matmul(normed, weights("up", f"bf16[{wide},{inner}]"), inside)
    gate = builder.matmul(normed, weights("gate", f"bf16[{wide},{inner}]"), inside)
    gate = builder.add("activation", (gate,), inside, function="silu")
    both = builder.add("binary", (up, gate), inside, operator="multiply")
    down = builder.matmul(both, weights("down", f"bf16[{inner},{wide}]"), rows)
    return builder.add("binary", (down, x), rows, operator="add")


SMALL = (256, 512, 8, 1024)
WORKS = {
    "4096^3": lambda: product(4096),
    "Llama-7B, 2,048 tokens": lambda: layers(1, 2048, 4096, 32, 11008),
    "one layer": lambda: layers(1, *SMALL),
    "four layers": lambda: layers(4, *SMALL),
}


def measure(name: str) -> None:
    """Print seconds, instructions and cycles of a work."""
    chip = load_chip(CHIPS / "ideal_128x128.toml")
    if name in WORKS:
        graph = WORKS[name]()
    else:
        run = load_run(NETWORKS / f"{name}.toml")
        graph, chip = run.graph, run.chip
    judge = judge_on(chip)
    compile_graph("first", product(64), chip, judge=judge)
    begun = time.process_time()
    compiled = compile_graph(name, graph, chip, judge=judge)
    seconds = time.process_time() - begun
    print(seconds, len(compiled.program.instructions), judge(compiled.program))


def main(names: list[str]) -> None:
    """Measure works, each in a process of its own, and print a table."""
    seconds: dict[str, float] = {}
    print(f"{'work':26}{'instructions':>14}{'ticks':>14}{'seconds':>10}{'us each':>10}")
    for name in names:
        done = subprocess.run(
            [sys.executable, __file__, "--measure", name],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        taken, count, ticks = (float(word) for word in done.stdout.split())
        seconds[name] = taken
        print(f"{name:26}{count:14,.0f}{ticks:14,.0f}{taken:10.2f}{1e6 * taken / count:10.1f}")
    if {"one layer", "four layers"} <= seconds.keys():
        print(f"four to one: {seconds['four layers'] / seconds['one layer']:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
    else:
        main(sys.argv[1:] or ["resnet50", *WORKS])
