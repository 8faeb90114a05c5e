"""Is the value right? Pairs of operations of infinities, NaN, zeros and the ends of types.

A product with the identity makes NaN of the neighbours of an infinity. So no pass may move a
function in front of one: of finite inputs elementwise work and turns give what numpy gives.
"""

from __future__ import annotations

from random import Random
from typing import get_args

import numpy as np
import pytest

import systolic
from support.refusals import is_for_room
from systolic.compiler.arithmetic import rules_of
from systolic.errors import SystolicError
from systolic.run.verdict import differences
from systolic.shipped import chips_of_one_core
from systolic.workload import Graph, GraphBuilder, reference_graph
from systolic.workload.operations.activation import FunctionName

CHIP_NAMES = chips_of_one_core()
HOMES = ("dram", "state_buffer")
DTYPES = ("f32", "bf16", "f16")
FUNCTIONS = tuple(get_args(FunctionName))
BINARY = ("add", "subtract", "multiply", "divide", "remainder", "max", "min", "greater", "equal")
SAME = ("transpose", "reshape", "relayout", "cast", "concat", "slice")
SUMS = ("matmul", "sum", "greatest", "softmax", "causal_mask")
PLAIN = (*FUNCTIONS, *BINARY, "transpose", "relayout", "cast")
STEPS = (*FUNCTIONS, *BINARY, *SAME, *SUMS)
SIDE = 6
QUICK, SLOW, SEED = 400, 1600, 20
REFUSED = ("cannot", "no engine", "has no", "does not")


def add(builder: GraphBuilder, step: str, x: str, dtype: str, name: str) -> tuple[str, str]:
    """Add a step to a graph; return the result and its type."""
    square, line = f"{dtype}[{SIDE},{SIDE}]", f"{dtype}[{SIDE}]"
    if step in FUNCTIONS:
        return builder.activation(x, function=step, out=square, name=name), dtype
    if step in BINARY:
        return builder.binary(x, x, operator=step, out=square, name=name), dtype
    if step == "transpose":
        return builder.transpose(x, square, name=name), dtype
    if step == "reshape":
        long = builder.reshape(x, out=f"{dtype}[{SIDE * SIDE}]", name=f"{name}_long")
        return builder.reshape(long, out=square, name=name), dtype
    if step == "relayout":
        return builder.relayout(x, out=f"{square}{{0,1}}", name=name), dtype
    if step == "cast":
        other = "bf16" if dtype == "f32" else "f32"
        return builder.cast(x, out=f"{other}[{SIDE},{SIDE}]", name=name), other
    if step in ("concat", "slice"):
        if step == "concat":
            x = builder.concat(x, x, out=f"{dtype}[{2 * SIDE},{SIDE}]", name=f"{name}_long", axis=0)
        cut = {"start": (0, 0), "stop": (SIDE, SIDE)}
        return builder.slice(x, out=square, name=name, **cut), dtype
    if step == "matmul":
        factors = builder.tensor(f"{name}_w", square)
        return builder.matmul(x, factors, square, name=name), dtype
    if step in ("sum", "greatest"):
        kind = {"sum": "sum", "greatest": "max"}[step]
        each = builder.reduce(x, out=line, name=f"{name}_each", reduction=kind, axes=(1,))
        given = {"operator": "subtract", "broadcast_dimensions": (0,)}
        return builder.binary(x, each, out=square, name=name, **given), dtype
    given = {"value": -6e4} if step == "causal_mask" else {}
    return builder.add(step, (x,), square, name=name, **given), dtype


def drawn(seed: int) -> tuple[str, Graph, dict[str, np.ndarray], tuple[str, ...], bool]:
    """Return a chip, a graph of two or three steps, its inputs, the steps, and if all is small."""
    rng = Random(seed)
    builder, dtype = GraphBuilder(rng.choice(HOMES)), rng.choice(DTYPES)
    steps = tuple(rng.choice(STEPS) for _ in range(rng.choice([2, 2, 3])))
    if rng.random() < 0.5:
        steps = (*steps[:-1], rng.choice(["transpose", "relayout"]))
    now = builder.tensor("x", f"{dtype}[{SIDE},{SIDE}]")
    for number, step in enumerate(steps):
        now, dtype = add(builder, step, now, dtype, f"y{number}")
    graph, small = builder.graph(), rng.random() < 0.5
    inputs = {name: special(rng, graph, name, small=small) for name in graph.inputs}
    return rng.choice(CHIP_NAMES), graph, inputs, steps, small


def special(rng: Random, graph: Graph, name: str, *, small: bool) -> np.ndarray:
    """Return small numbers, and a few special ones among them."""
    dtype = graph.shape(name).dtype
    numbers = np.random.default_rng(rng.getrandbits(32))
    array = numbers.integers(-4, 5, (SIDE, SIDE)).astype(dtype) + np.asarray(0, dtype)
    most = 65504.0 if dtype == np.float16 else 3.3e38
    few = [0.0, 12.0, -12.0] if small else [0.0, most, -most, np.inf, -np.inf, np.nan]
    for _ in range(rng.randint(1, 3)):
        array[rng.randrange(SIDE), rng.randrange(SIDE)] = rng.choice(few)
    return array


def holds(seed: int) -> bool:
    """Equal to the reference; element by element also to numpy, of small inputs. False if refused.

    Powers of small numbers, too, may leave a type of 16 bits, and turns then spread what is there:
    the reference says so, numpy does not.
    """
    chip, graph, inputs, steps, small = drawn(seed)
    try:
        with np.errstate(all="ignore"):
            run = systolic.run(graph, chip, inputs)
    except SystolicError as error:
        if is_for_room(error) or any(text in str(error) for text in REFUSED):
            return False
        raise
    told = f"seed {seed}: {' '.join(steps)} on {chip}: {graph}"
    assert run.summary["values"]["equal"], told
    powers = sum(step in ("square", "multiply", "matmul") for step in steps)
    if small and powers <= 1 and run.compiled and not {*steps}.difference(PLAIN):
        with np.errstate(all="ignore"):
            expected = reference_graph(graph, inputs, rules_of(run.compiled.chip))
        for name, array in expected.items():
            assert not differences(run.outputs[name], array, signed_zeros=False), told
    return True


@pytest.mark.parametrize("part", range(4))
def test_pairs_of_operations(part: int) -> None:
    each = QUICK // 4
    seeds = range(SEED + part * each, SEED + (part + 1) * each)
    assert sum(holds(seed) for seed in seeds) > 0.9 * each


@pytest.mark.slow
def test_many_pairs_of_operations() -> None:
    seeds = range(SEED + QUICK, SEED + QUICK + SLOW)
    assert sum(holds(seed) for seed in seeds) > 0.9 * SLOW


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("chip", CHIP_NAMES)
@pytest.mark.parametrize(
    ("function", "number"),
    [("exponential", 100), ("expm1", 100), ("reciprocal", 0), ("log", 0), ("log1p", -1)],
)
def test_a_function_behind_a_transpose(function: str, number: float, chip: str, home: str) -> None:
    builder = GraphBuilder(home)
    builder.tensor("x", "f32[64,64]")
    builder.transpose("x", "f32[64,64]", name="t")
    y = builder.activation("t", function=function, name="y")
    x = np.ones((64, 64), np.float32)
    x[3, 5] = number
    run = systolic.run(builder.graph(), chip, {"x": x})
    assert not np.isnan(run.outputs[y]).any()
    assert np.isinf(run.outputs[y]).sum() == 1
    assert run.summary["values"]["equal"]
