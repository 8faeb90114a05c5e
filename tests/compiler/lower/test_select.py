"""Select: which elements are taken, bit for bit, and how operands are spread."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.lane_graphs import HOMES, text, values
from support.tiers import quick_first
from systolic.bounds import run_bound
from systolic.errors import CompileError, WorkloadError
from systolic.isa import CopyPredicated
from systolic.workload import GraphBuilder

ENGINES = ("event", "register")
DOES = ["copy", "memset", "activate", "tensor_tensor", "tensor_scalar", "iota", "select"]
TYPES = ("f32", "bf16", "f16", "f8e5m2", "s8", "u8", "s32", "pred")
CHIPS = {
    "instruction": ideal_chip(4, 4, activation={"does": [*DOES, "copy_predicated"]}),
    "masks": ideal_chip(4, 4),
}
"""A chip with an engine that selects, and one whose engines select by operations on bits."""


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def any_bits(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> np.ndarray:
    """Return elements of random bits, many of which are NaN where there are any."""
    numbers = np.random.default_rng(seed)
    if dtype.kind == "b":
        return numbers.integers(0, 2, shape).astype(dtype)
    raw = numbers.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    if dtype.kind not in "iu" and dtype.itemsize > 1:
        special = numbers.random(shape) < 0.3
        raw[special, -1] |= 0x7F
        raw[special, -2] |= 0xF0
    return raw.view(dtype).reshape(shape)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("way", CHIPS)
@pytest.mark.parametrize("kind", TYPES)
def test_every_bit_of_what_is_taken_stays(kind, way, home, engine):
    """NaN and infinity on the other side leave no trace, as factors of 0 and 1 would."""
    builder = GraphBuilder(home)
    p, a, b = (builder.tensor(name, f"{type_}[9,7]")
               for name, type_ in (("p", "pred"), ("a", kind), ("b", kind)))  # fmt: skip
    builder.add("select", (p, a, b), f"{kind}[9,7]", name="y")
    graph = builder.graph()
    dtype = graph.shape("y").dtype
    chip = CHIPS[way]
    data = {"a": any_bits((9, 7), dtype, 1), "b": any_bits((9, 7), dtype, 2)}
    data["p"] = np.random.default_rng(3).integers(0, 2, (9, 7)).astype(graph.shape("p").dtype)
    found = systolic.run(graph, chip, data, engine=engine)
    wanted = np.where(data["p"] != 0, bits(data["a"]), bits(data["b"]))
    assert np.array_equal(bits(found.outputs["y"]), wanted)
    assert found.cycles >= run_bound(graph, chip).cycles
    made = [i for i in found.compiled.program.instructions if isinstance(i, CopyPredicated)]
    copied = sum(i.target.partitions * i.target.elements for i in made)
    assert copied >= 63 if way == "instruction" else not made


def random_select(seed: int):
    """Return a select of operands of random layouts, of which two may be spread, and its data."""
    rng, numbers = Random(seed), np.random.default_rng(seed)
    dims = tuple(rng.randint(1, 11) for _ in range(rng.choice([1, 2, 2, 3])))
    matched = tuple(d for d in range(len(dims)) if rng.random() < 0.5)
    builder, kind, shapes = GraphBuilder("dram"), rng.choice(TYPES), {}
    whole = rng.choice("pab")
    for name in "pab":
        own = dims if name == whole else rng.choice([dims, tuple(dims[d] for d in matched), ()])
        shapes[name] = own
        held = rng.choice(["pred", "s8", "f32"]) if name == "p" else kind
        builder.tensor(name, text(rng, held, own), rng.choice(HOMES))
    lower = {len(own) for own in shapes.values()} - {0, len(dims)}
    given = {"broadcast_dimensions": matched} if lower else {}
    builder.add("select", ("p", "a", "b"), text(rng, kind, dims), name="y", **given)
    graph = builder.graph()
    data = {name: values(rng, graph.shape(name)) for name in "ab"}  # turns make NaN of NaN times 0
    truth = numbers.integers(0, 2, shapes["p"])
    other = {"pred": 1, "s8": rng.choice([-128, 1, 2]), "f32": rng.choice([-1e-30, 3e38])}
    p = graph.shape("p")
    data["p"] = np.where(truth != 0, other[p.element_type], 0).astype(p.dtype)
    return graph, data, matched


def spread(array: np.ndarray, dims: tuple[int, ...], matched: tuple[int, ...]) -> np.ndarray:
    if array.ndim in (0, len(dims)):
        return np.broadcast_to(array, dims)
    return np.broadcast_to(
        array.reshape([dims[d] if d in matched else 1 for d in range(len(dims))]), dims
    )


def check_random_select(seed: int) -> None:
    graph, data, matched = random_select(seed)
    chip = CHIPS[Random(seed).choice([*CHIPS])]
    found = [systolic.run(graph, chip, data, engine=engine) for engine in ENGINES]
    dims = graph.shape("y").dims
    p, a, b = (spread(data[name], dims, matched) for name in "pab")
    wanted = np.where(p != 0, bits(a), bits(b))
    for each in found:
        assert np.array_equal(bits(each.outputs["y"]), wanted)
    assert found[0].cycles == found[1].cycles


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_random_selects(seed):
    check_random_select(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 240))
def test_many_random_selects(seed):
    check_random_select(seed)


def test_a_select_between_other_operations():
    """relu by hand, of sums that a product made, and a product of what comes out."""
    builder = GraphBuilder("dram")
    x, w = builder.tensor("x", "f32[6,5]"), builder.tensor("w", "f32[5,7]")
    zero = builder.tensor("zero", "f32[]")
    s = builder.matmul(x, w, "f32[6,7]", name="s")
    p = builder.add("binary", (s, zero), "pred[6,7]", name="p", operator="greater")
    y = builder.add("select", (p, s, zero), "f32[6,7]", name="y")
    v = builder.tensor("v", "f32[7,3]")
    builder.matmul(y, v, "f32[6,3]", name="z")
    numbers = np.random.default_rng(5)
    data = {name: numbers.integers(-4, 5, dims).astype(np.float32)
            for name, dims in (("x", (6, 5)), ("w", (5, 7)), ("v", (7, 3)))}  # fmt: skip
    data["zero"] = np.float32(0)
    for chip, engine in product(CHIPS.values(), ENGINES):
        found = systolic.run(builder.graph(), chip, data, engine=engine).outputs["z"]
        assert np.array_equal(found, np.maximum(data["x"] @ data["w"], 0) @ data["v"])


@pytest.mark.parametrize(
    ("shapes", "out", "given", "text"),
    [
        (("pred[4]", "f32[4]", "f16[4]"), "f32[4]", {},
         "on_true and on_false with different element types: f32[4] and f16[4]"),
        (("pred[4]", "f32[5]", "f32[4]"), "f32[4]", {}, "(predicate pred[4], on_true f32[5]"),
        (("pred[4]", "f32[4,5]", "f32[4,5]"), "f32[4,5]", {}, "predicate pred[4]"),
        (("pred[4,5]", "f32[4,5]", "f32[]"), "f32[4,5]", {"broadcast_dimensions": (0,)},
         "broadcast_dimensions [0]: no operand has a lower rank"),
        (("pred[4]", "f32[4]", "f32[4]"), "bf16[4]", {}, "f32[4] gives f32[4], but out is bf16[4]"),
    ],
)  # fmt: skip
def test_what_is_refused(shapes, out, given, text):
    builder = GraphBuilder("dram")
    for name, shape in zip("pab", shapes, strict=True):
        builder.tensor(name, shape)
    builder.add("select", ("p", "a", "b"), out, name="y", **given)
    with pytest.raises(WorkloadError) as raised:
        builder.graph()
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_chip_without_operations_on_bits_says_so():
    builder = GraphBuilder("dram")
    for name, kind in (("p", "pred"), ("a", "f32"), ("b", "f32")):
        builder.tensor(name, f"{kind}[4,4]")
    builder.add("select", ("p", "a", "b"), "f32[4,4]", name="y")
    does = [word for word in DOES if word != "tensor_tensor"]
    chip = ideal_chip(4, 4, activation={"does": does}, pooling={"does": does})
    with pytest.raises(CompileError, match="does tensor_tensor"):
        systolic.run(builder.graph(), chip)
