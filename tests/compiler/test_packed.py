"""Do narrow and packed tensors go through transpose, relayout, reshape and cast, in both homes?"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from support.chips import ideal_chip
from support.command_line import refused, run_command
from support.packed import (
    HOMES,
    NARROW,
    WIDE,
    access_of,
    random_tensor,
    random_text,
    run,
    whole_numbers,
)
from support.tiers import quick_first
from systolic.compiler import Options, compile_graph
from systolic.element_types import ELEMENT_TYPES
from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.layout import Shape, pack, unpack_bits
from systolic.machine import simulate
from systolic.run.tensors import graph_images
from systolic.workload import Graph, GraphBuilder, Tensor


def chip_8x8(**tables: Any) -> Chip:
    return ideal_chip(8, 8, state_buffer={"bytes_per_partition": 8192, **tables})


def graph_between(kind: str, source: Tensor, result: Tensor, **attributes: Any) -> Graph:
    builder = GraphBuilder()
    builder.add(kind, (builder.tensor("x", source),), result, name="y", **attributes)
    return builder.graph()


def graph_of(kind: str, source: str, out: str, homes: tuple[str, str], **attributes: Any) -> Graph:
    before, after = (Tensor(Shape.parse(text), home)  # type: ignore[arg-type]
                     for text, home in zip((source, out), homes, strict=True))  # fmt: skip
    return graph_between(kind, before, after, **attributes)


def random_graph(rng: Random) -> tuple[Graph, tuple[int, ...]]:
    """One move of a narrow type between random homes and layouts; the permutation of its axes."""
    rank = rng.randint(1, 4)
    dims = tuple(rng.randint(1, {1: 70, 2: 21, 3: 9, 4: 5}[rank]) for _ in range(rank))
    axes = list(range(rank))
    kind = rng.choice(("transpose", "relayout", "reshape"))
    element, after = rng.choice(NARROW), dims
    attributes: dict[str, Any] = {}
    if kind == "transpose":
        rng.shuffle(axes)
        after = tuple(dims[axis] for axis in axes)
        attributes = {"permutation": tuple(axes)}
    elif kind == "reshape":
        count = int(np.prod(dims))
        first = rng.choice([n for n in range(1, count + 1) if count % n == 0])
        after = (first, count // first)
    source, result = random_tensor(rng, element, dims), random_tensor(rng, element, after)
    return graph_between(kind, source, result, **attributes), tuple(axes)


def check_random_move(seed: int) -> None:
    rng = Random(seed)
    graph, axes = random_graph(rng)
    _, inputs, outputs = run(graph, chip_8x8(banks=rng.choice([1, 8])), seed)
    shape = graph.shape("y")
    before = whole_numbers(inputs["x"], shape.element_type)
    expected = before.transpose(axes).reshape(shape.dims)
    np.testing.assert_array_equal(whole_numbers(outputs["y"], shape.element_type), expected)


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_random_moves(seed: int) -> None:
    check_random_move(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 400))
def test_many_random_moves(seed: int) -> None:
    check_random_move(seed)


def test_a_copy_of_the_same_bytes_leaves_padding_alone() -> None:
    text = "u2[17,8]{1,0:T(8,8)}"  # seven of its 24 rows are padding
    run(graph_of("relayout", text, text, ("dram", "dram")), chip_8x8())


# Casts


def cast_by_value(value: float, after: str) -> float:
    """Return what one number becomes, in plain Python."""
    if after == "pred":
        return value != 0
    limits = ELEMENT_TYPES[after].integer_range
    if limits is None:
        return value
    low, high = limits
    if isinstance(value, int):
        return (value - low) % (high - low + 1) + low
    if math.isnan(value):
        return 0
    return low if value < low else high if value > high else math.trunc(value)


def numbers_of(values: np.ndarray, element: str) -> list[Any]:
    if element in NARROW:
        return list(whole_numbers(values, element).ravel().tolist())
    whole = ELEMENT_TYPES[element].integer_range is not None
    return list(values.astype(np.int64 if whole else np.float64).ravel().tolist())


def check_random_cast(seed: int) -> None:
    rng = Random(seed)
    before, after = rng.choice(NARROW), rng.choice((*NARROW, *WIDE))
    if rng.random() < 0.5:
        before, after = after, before
    dims = tuple(rng.randint(1, 15) for _ in range(rng.randint(1, 3)))
    graph = graph_between("cast", random_tensor(rng, before, dims), random_tensor(rng, after, dims))
    _, inputs, outputs = run(graph, chip_8x8(), seed)
    wanted = [cast_by_value(value, after) for value in numbers_of(inputs["x"], before)]
    np.testing.assert_array_equal(numbers_of(outputs["y"], after), np.array(wanted, np.float64))


@pytest.mark.parametrize("seed", quick_first(range(40), 10))
def test_random_casts(seed: int) -> None:
    check_random_cast(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 400))
def test_many_random_casts(seed: int) -> None:
    check_random_cast(seed)


@pytest.mark.parametrize("before", NARROW)
@pytest.mark.parametrize("after", [*NARROW, "bf16", "s8"])
def test_every_pair_of_narrow_types(before: str, after: str) -> None:
    """All values of a type, by the reference in numpy as well as by the lanes."""
    from systolic.workload.operations.cast import to_type

    limits = ELEMENT_TYPES[before].integer_range
    assert limits is not None
    values = np.arange(limits[0], limits[1] + 1).astype(ELEMENT_TYPES[before].dtype)
    found = to_type(values, ELEMENT_TYPES[before], ELEMENT_TYPES[after])
    wanted = [cast_by_value(value, after) for value in range(limits[0], limits[1] + 1)]
    assert found.dtype == ELEMENT_TYPES[after].dtype
    np.testing.assert_array_equal(numbers_of(found, after), np.array(wanted, np.float64))


# Several operations


def check_random_chain(seed: int) -> None:
    """A packed input that two chains of operations take; tensors between them are packed too."""
    rng, builder = Random(seed), GraphBuilder()
    element, dims = rng.choice(NARROW), (rng.randint(1, 12), rng.randint(1, 12))
    shape = Shape.parse(random_text(rng, element, dims))
    builder.tensor("x", Tensor(shape, rng.choice(HOMES)))  # type: ignore[arg-type]
    axes: dict[str, list[tuple[Any, ...]]] = {}
    for chain in ("a", "b"):
        _add_chain(rng, builder, element, (chain, dims), axes.setdefault(chain, []))
    graph = builder.graph()
    _, inputs, outputs = run(graph, chip_8x8(), seed)
    for name, found in outputs.items():
        expected = whole_numbers(inputs["x"], element)
        for kind, *more in axes[name[0]]:
            expected = expected.transpose() if kind == "transpose" else expected.reshape(more)
        kind = graph.shape(name).element_type
        shown = whole_numbers(found, element) if kind == element else found.astype(np.int64)
        np.testing.assert_array_equal(shown, expected)


def _add_chain(
    rng: Random, builder: GraphBuilder, element: str, start: tuple[str, tuple[int, ...]],
    done: list[tuple[Any, ...]],
) -> None:  # fmt: skip
    chain, dims = start
    before, kinds = "x", [rng.choice(("transpose", "reshape", "relayout")) for _ in range(2)]
    for number, kind in enumerate([*kinds, rng.choice(("relayout", "cast"))]):
        if kind == "transpose":
            dims = dims[::-1]
            done.append((kind,))
        elif kind == "reshape":
            count = int(np.prod(dims))
            first = rng.choice([n for n in range(1, count + 1) if count % n == 0])
            dims = (first, count // first)
            done.append((kind, *dims))
        shape = Shape.parse(random_text(rng, "f32" if kind == "cast" else element, dims))
        given = {"permutation": (1, 0)} if kind == "transpose" else {}
        tensor = Tensor(shape, rng.choice(HOMES))  # type: ignore[arg-type]
        before = builder.add(kind, (before,), tensor, name=f"{chain}{number}", **given)


@pytest.mark.parametrize("seed", quick_first(range(20), 5))
def test_random_chains(seed: int) -> None:
    check_random_chain(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 220))
def test_many_random_chains(seed: int) -> None:
    check_random_chain(seed)


# What need not be unpacked, what it costs, and what is refused


@pytest.mark.parametrize("homes", [(a, b) for a in HOMES for b in HOMES])
@pytest.mark.parametrize(
    ("kind", "source", "out", "axes"),
    [
        ("reshape", "s4[16,12]{1,0:E(4)}", "s4[4,48]{1,0:E(4)}", None),
        ("transpose", "pred[5,6,16]{2,1,0:E(1)}", "pred[6,5,16]{2,1,0:E(1)}", (1, 0, 2)),
        ("relayout", "u2[24,16]{1,0:E(2)}", "u2[24,16]{1,0:T(8,8)E(2)}", None),
        ("relayout", "u2[24,18]{0,1:T(4,8)E(2)}", "u2[24,18]{0,1:E(2)}", None),
    ],
)
def test_bytes_that_stay_whole_are_not_unpacked(
    kind: str, source: str, out: str, axes: tuple[int, ...] | None, homes: tuple[str, str]
) -> None:
    attributes = {} if axes is None else {"permutation": axes}
    compiled, inputs, outputs = run(graph_of(kind, source, out, homes, **attributes), chip_8x8())
    assert not {"TensorScalar", "TensorTensor"} & {*compiled.program.count()}
    before = whole_numbers(inputs["x"], source.split("[")[0])
    found = whole_numbers(outputs["y"], source.split("[")[0])
    expected = before.transpose(axes) if axes else before.reshape(found.shape)
    np.testing.assert_array_equal(found, expected)


def test_a_lone_byte_is_joined_in_three_steps() -> None:
    """Eight instructions take 8 bits apart; to join them, each of 3 steps shifts, and then ors."""
    graph = graph_of("transpose", "pred[8,8]{1,0:E(1)}", "pred[8,8]{1,0:E(1)}", ("dram", "dram"))
    compiled, inputs, outputs = run(graph, chip_8x8())
    count = compiled.program.count()
    assert (count["TensorScalar"], count["TensorTensor"]) == (8 + 3, 3)
    np.testing.assert_array_equal(outputs["y"], inputs["x"].T)


def test_unpacking_is_an_instruction_for_each_element_of_a_byte() -> None:
    """128 bytes of a partition are two elements each: two instructions of 128; then copies.

    These take words of four bytes.
    """
    graph = graph_of("cast", "u4[8,256]{1,0:E(4)}", "u8[8,256]", ("state_buffer",) * 2)
    compiled, _, _ = run(graph, chip_8x8())
    targets = [(type(i).__name__, i.target) for i in compiled.program.instructions]  # type: ignore[union-attr]
    assert [(name, access.elements) for name, access in targets[:2]] == [("TensorScalar", 128)] * 2
    assert {(name, access.element_bytes) for name, access in targets[2:]} == {("Copy", 4)}
    assert sum(access.elements * access.element_bytes for _, access in targets[2:]) == 256


REFUSED = [
    ("relayout", "s2[4,8]{1,0:E(3)}", "s2[4,8]",
     "s2[4,8]{1,0:E(3)}: s2 elements can be held in E(2, 4 or 8), found E(3)"),
    ("relayout", "s4[4,8]{1,0:E(2)}", "s4[4,8]",
     "s4[4,8]{1,0:E(2)}: s4 elements can be held in E(4 or 8), found E(2)"),
    ("activation", "s4[4,8]", "f32[4,8]",
     'operation "y": activation takes no s4; transpose, relayout, reshape, cast do, and a cast '
     "gives a type of 8 bits or more"),
    ("relayout", "f4e2m1fn[4,8]{1,0:E(4)}", "f4e2m1fn[4,8]",
     'tensor "x": the machine has no type f4e2m1fn (known: f32, bf16, f16, f8e4m3fn, f8e5m2, s8, '
     "u8, s32, u16, pred, s1, s2, s4, u1, u2, u4)"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "source", "out", "message"), REFUSED)
@pytest.mark.parametrize("home", HOMES)
def test_refusals(kind: str, source: str, out: str, message: str, home: str) -> None:
    given = {"function": "ramp"} if kind == "activation" else {}
    with pytest.raises(SystolicError) as refused:
        compile_graph("test", graph_of(kind, source, out, (home, home), **given), chip_8x8())
    assert str(refused.value) == message


def test_an_engine_must_shift_and_mask() -> None:
    """A chip whose engines only copy cannot take elements apart; it says what each can do."""
    engine = {"does": ["copy"]}
    chip = ideal_chip(8, 8, activation=engine, pooling=engine)
    with pytest.raises(SystolicError, match=r"^no engine of .* does tensor_scalar from state_buf"):
        compile_graph("test", graph_of("cast", "u4[8,8]{1,0:E(4)}", "u8[8,8]", HOMES), chip)


def test_blocks_cannot_be_chosen_for_packed_tensors() -> None:
    shape = "s4[8,8]{1,0:E(4)}"
    graph = graph_of("transpose", shape, shape, ("state_buffer",) * 2)
    with pytest.raises(SystolicError) as refused:
        compile_graph("test", graph, chip_8x8(), Options(block=(4, 4)))
    assert str(refused.value) == (
        "compile.block: x lies on the chip with several elements in a byte, so no blocks can be "
        "chosen"
    )


@pytest.mark.parametrize("homes", HOMES)
def test_legacy_padding_holds_its_value(homes: str) -> None:
    """The memory of a padded result is what the layout says, padding values and all."""
    text = "s4[5,3]{1,0:T(4,4)E(4)}"
    padded = Shape.parse(text).with_padding((7, 6), -3)
    home: Any = homes
    graph = graph_between("transpose", Tensor(Shape.parse("s4[3,5]"), home), Tensor(padded, home),
                          permutation=(1, 0))  # fmt: skip
    compiled = compile_graph("test", graph, chip_8x8(), verify=True)
    values = np.arange(15).reshape(3, 5).astype(padded.dtype)
    outcome = simulate(chip_8x8(), compiled.program, graph_images(compiled, {"x": values}))
    access = access_of(compiled, "y")
    expected = pack(np.ascontiguousarray(values.T), padded)[None]
    if home == "state_buffer":
        expected = compiled.placements()["y"].image(np.ascontiguousarray(values.T))
    every = unpack_bits(expected.reshape(-1), 4, expected.size * 2, padded.type)
    assert -3 in whole_numbers(every, "s4")
    np.testing.assert_array_equal(outcome.memory.read(access), expected)


@pytest.mark.parametrize("source", ["s4[20,12]{1,0:E(4)}", "pred[9,11]{0,1:E(1)}", "u2[9,12]"])
def test_a_pasted_place_gives_the_same_run(source: str) -> None:
    """What the compiler chose, and a run prints, is a shape, a partition and a byte."""
    kind, dims = source.split("[")[0], Shape.parse(source).dims
    out = Shape(kind, dims[::-1], Shape.parse(source).layout)
    first = graph_between("transpose", Tensor(Shape.parse(source), "state_buffer"),
                          Tensor(out, "state_buffer"), permutation=(1, 0))  # fmt: skip
    placed = compile_graph("test", first, chip_8x8()).placements()
    ends = [Tensor(each.shape, "state_buffer", each.base_partition, each.base_byte)
            for each in (placed["x"], placed["y"])]  # fmt: skip
    assert all(each.shape.element_type == kind for each in ends)
    again = compile_graph("test", graph_between("transpose", *ends, permutation=(1, 0)), chip_8x8())
    assert again.placements() == placed
    assert again.program == compile_graph("test", first, chip_8x8()).program


RUN = """chip = "ideal_128x128"
[workload]
op = "transpose"
shape = "s4[8,6]{1,0:E(4)}"
out = "s4[6,8]{1,0:E(4)}"
"""


def test_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "packed.toml"
    path.write_text(RUN)
    status, out, _ = run_command("run", path, "--no-plots", "--out", tmp_path / "out")
    assert status == 0
    assert "result equals numpy: yes" in out
    assert refused("run", path, "--set", "workload.out=s4[6,8]{1,0:E(2)}") == (
        "s4[6,8]{1,0:E(2)}: s4 elements can be held in E(4 or 8), found E(2)"
    )
    assert refused("compile", path, "--program", tmp_path / "packed.st") == (
        "source: s4[8,6]{1,0:E(4)}: a program file binds tensors of the machine's types, not of "
        "s4; a run file can have it"
    )
