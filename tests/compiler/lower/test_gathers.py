"""Slice, concat and pad: numpy's elements on both engines, the instructions, what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from systolic.compiler.ir.gathers import GatheredBox, around, part_of, runs_of, stretches
from systolic.errors import WorkloadError
from systolic.isa.instruction import Copy, DmaCopy, Memset
from systolic.workload import GraphBuilder

CHIP = ideal_chip(4, 4)
X = np.arange(5 * 9 * 7, dtype=np.float32).reshape(5, 9, 7)
CASES = {
    "slice": ("f32[3,4,7]", {"start": [1, 2, 0], "stop": [4, 9, 7], "step": [1, 2, 1]},
              X[1:4, 2:9:2]),
    "concat": ("f32[5,18,7]", {"axis": 1}, np.concatenate([X, X], axis=1)),
    "pad": ("f32[5,12,8]", {"low": [0, 2, 1], "high": [0, 1, 0], "value": 1.5},
            np.pad(X, ((0, 0), (2, 1), (1, 0)), constant_values=1.5)),
}  # fmt: skip


def built(kind: str, home: str, inputs: tuple[str, ...] = ("x",), **given) -> GraphBuilder:
    builder = GraphBuilder(home)
    builder.tensor("x", "f32[5,9,7]")
    out, attributes, _ = CASES[kind]
    builder.add(kind, inputs, out, name="y", **{**attributes, **given})
    return builder


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize("kind", CASES)
def test_elements_are_those_of_numpy(kind, home, engine):
    graph = built(kind, home, ("x", "x") if kind == "concat" else ("x",)).graph()
    found = systolic.run(graph, CHIP, {"x": X}, engine=engine)
    assert np.array_equal(found.outputs["y"], CASES[kind][2])


def test_all_rows_of_a_tile_are_copied_by_one_instruction():
    """A column on either side of two matrices, each a tile: of each one copy and two fills."""
    builder = GraphBuilder("state_buffer")
    builder.tensor("x", "f32[2,4,6]")
    low, high = [0, 0, 1], [0, 0, 1]
    builder.add("pad", ("x",), "f32[2,4,8]", name="y", low=low, high=high)
    data = {"x": np.ones((2, 4, 6), np.float32)}
    found = systolic.run(builder.graph(), ideal_chip(16, 16), data)
    instructions = found.compiled.program.instructions
    assert sum(isinstance(each, Copy | DmaCopy) for each in instructions) == 2
    assert sum(isinstance(each, Memset) for each in instructions) == 4
    assert found.outputs["y"].sum() == 48


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("slice", {"start": [1, 2]},
         "start: needs a number for each dimension of f32[5,9,7], found [1, 2]"),
        ("slice", {"stop": [6, 9, 7]},
         "dimension 0 of f32[5,9,7]: needs 0 <= start < stop <= 5 and a step of at least 1, "
         "found 1:6:1"),
        ("slice", {"step": [1, 0, 1]},
         "dimension 1 of f32[5,9,7]: needs 0 <= start < stop <= 9 and a step of at least 1, "
         "found 2:9:0"),
        ("slice", {"step": [1, 1, 1]}, "f32[5,9,7] gives f32[3,7,7], but out is f32[3,4,7]"),
        ("pad", {"low": [0, -1]},
         "low: needs a number for each dimension of f32[5,9,7], found [0, -1]"),
        ("pad", {"low": [0, -9, 0], "high": [0, 0, 0]},
         "low, high: [0, -9, 0] and [0, 0, 0] leave nothing of f32[5,9,7]"),
        ("pad", {"interior": [0, -1, 0]},
         "interior: needs a number of at least 0 for each dimension of f32[5,9,7], "
         "found [0, -1, 0]"),
        ("pad", {"low": [0, 0, 7], "mode": "reflect"},
         "f32[5,9,7] gives f32[5,10,14], but out is f32[5,12,8]"),
        ("concat", {"axis": 3}, "axis: needs 0 to 2, an axis of f32[5,9,7], found 3"),
        ("concat", {"axis": 0}, "f32[5,9,7] gives f32[10,9,7], but out is f32[5,18,7]"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(kind, given, message):
    builder = built(kind, "dram", ("x", "x") if kind == "concat" else ("x",), **given)
    with pytest.raises(WorkloadError) as refused:
        builder.graph()
    assert str(refused.value) == f'operation "y": {message}'


def test_a_concat_of_one_tensor_is_refused():
    with pytest.raises(WorkloadError) as refused:
        built("concat", "dram").graph()
    assert str(refused.value) == 'operation "y": concat takes at least 2 tensors, found 1'


def test_other_types_or_dimensions_do_not_follow_one_another():
    builder = GraphBuilder()
    builder.tensor("x", "f32[2,3]")
    builder.tensor("z", "f32[3,2]")
    builder.add("concat", ("x", "z"), "f32[5,3]", name="y", axis=0)
    with pytest.raises(WorkloadError) as refused:
        builder.graph()
    assert str(refused.value) == (
        'operation "y": f32[2,3] and f32[3,2] cannot follow one another along axis 0: type and '
        "all other dimensions must be equal"
    )


def test_a_value_that_an_integer_cannot_have_is_refused():
    builder = GraphBuilder()
    builder.tensor("x", "s8[4]")
    builder.add("pad", ("x",), "s8[5]", name="y", low=[1], high=[0], value=128)
    with pytest.raises(WorkloadError) as refused:
        builder.graph()
    assert str(refused.value) == (
        'operation "y": value: needs a whole number from -128 to 127 for s8[5], found 128'
    )


# The parts of gathers, by brute force.


def test_a_box_and_what_is_around_it_make_every_element_once():
    dims, inner = (3, 4, 5), GatheredBox((1, 0, 2), (1, 3, 2), 0, (0, 0, 0), (1, 1, 1))
    made = np.zeros(dims, int)
    for box in (*around(inner, dims), inner):
        made[tuple(slice(f, f + s) for f, s in zip(box.first, box.sizes, strict=True))] += 1
    assert (made == 1).all()


def test_a_part_says_where_each_element_comes_from():
    source = np.arange(6 * 4 * 5).reshape(6, 4, 5)
    box = GatheredBox((0, 1, 0), (3, 2, 5), 0, (1, 0, 0), (2, 3, 1))
    axes = ((1,), (0,), (2,))  # matrices of dimension 1, rows 0, columns 2
    part = part_of(box, axes, (3, 4, 5), source.shape)
    matrices = source.transpose(1, 0, 2)
    for index in np.ndindex(4, 3, 5):
        where = [array[i] for array, i in zip((part.numbers, part.rows, part.cols), index,
                                              strict=True)]  # fmt: skip
        number, row, col = index
        inside = 1 <= number < 3
        assert (min(where) >= 0) == inside
        if inside:
            assert matrices[tuple(where)] == source[1 + 2 * row, 3 * (number - 1), col]


@pytest.mark.parametrize("seed", range(20))
def test_runs_reach_the_columns_in_order(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 40))
    target = np.sort(rng.choice(100, size, replace=False))
    source = rng.permutation(200)[:size] if seed % 2 else target * 2 + 1
    pairs = [
        (run.target + down, run.source + across)
        for run in runs_of(target, source)
        for down, across in zip(_steps(run.target_pairs), _steps(run.source_pairs), strict=True)
    ]
    assert pairs == list(zip(target.tolist(), source.tolist(), strict=True))


def _steps(pairs) -> list[int]:
    found = [0]
    for step, count in pairs:
        found = [before + step * number for before in found for number in range(count)]
    return found


def test_rows_that_stay_neighbours_are_one_stretch():
    found = [(s.first, s.count, at) for s, at in stretches(np.array([-1, 0, 1, 4, 5, -1, -1, 3]))]
    assert found == [(1, 2, 0), (3, 2, 4), (7, 1, 3)]


def test_a_cast_may_stand_beside_a_tensor_of_another_type():
    """Its exact values are still bfloat16, which numpy does not join with float16."""
    builder = GraphBuilder("dram")
    first = builder.add("cast", [builder.tensor("a", "bf16[2,3]")], "f16[2,3]")
    builder.add("concat", [first, builder.tensor("b", "f16[4,3]")], "f16[6,3]", axis=0, name="y")
    a = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    b = np.arange(12).reshape(4, 3).astype(np.float16)
    run = systolic.run(builder.graph(), "ideal_4x4", {"a": a, "b": b})
    assert np.array_equal(run.outputs["y"], np.concatenate([a.astype(np.float16), b]))
    assert run.summary["values"]["max_abs_error"] == 0
