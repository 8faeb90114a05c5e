"""Is the value right, and does the schedule come near its bound? Compiled transposes."""

from __future__ import annotations

from itertools import permutations
from random import Random

import numpy as np
import pytest

from support.chips import ideal_chip
from support.runs import run_transpose
from support.tiers import quick_first
from systolic.bounds import run_bound
from systolic.compiler import Options
from systolic.errors import CompileError
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import result_cycles, transpose_block_cycles
from systolic.isa import Buffer
from systolic.layout import Shape, pack
from systolic.machine import simulate

RANDOM_LAYOUTS = [
    ("f32[21,37]{1,0}", "f32[37,21]{1,0}"),
    ("f32[21,37]{0,1}", "f32[37,21]{0,1}"),
    ("f32[21,37]{1,0:T(8,128)}", "f32[37,21]{1,0:T(8,128)}"),
    ("f32[21,37]{0,1:T(2,4)}", "f32[37,21]{1,0:T(4,8)(2,1)}"),
    ("bf16[21,37]{1,0:T(8,128)(2,1)}", "bf16[37,21]{0,1:T(8,128)(2,1)}"),
    ("s8[40,37]{1,0:T(8,16)(4,1)}", "s8[37,40]{1,0}"),
    ("f32[3,10,7]{2,1,0:T(*,4,2)}", "f32[10,7,3]{2,1,0:T(2,2)}"),
]


def _counted(shape: Shape) -> np.ndarray:
    return (np.arange(shape.num_elements()) % 101 - 50).reshape(shape.dims).astype(shape.dtype)


@pytest.mark.parametrize("via", ["pe", "dram"])
@pytest.mark.parametrize(("source", "result"), RANDOM_LAYOUTS)
def test_layouts_in_dram_byte_for_byte(source, result, via):
    """What stands in DRAM at the end is `pack` of numpy's transpose in the result's layout."""
    shape = Shape.parse(source)
    data = _counted(shape)
    axes = (1, 0) if shape.rank == 2 else (1, 2, 0)
    chip = ideal_chip(16, 8)
    _, outcome, compiled = run_transpose(
        chip, source, data, axes, home="dram", out=result, options=Options(via=via)
    )
    start = next(place.base for place in compiled.layers.dram if place.name == "result")
    out = compiled.graph.shape("result")
    found = outcome.memory.bytes_of(Buffer.DRAM)[0][start:][: out.size_bytes()]
    expected = pack(np.ascontiguousarray(data.transpose(axes)), out)
    assert bytes(found) == bytes(expected.view(np.uint8))


@pytest.mark.parametrize("via", [None, "dram"])
@pytest.mark.parametrize(("source", "axes"), [("f32[1,300]", (1, 0)), ("f32[3,1,200]", (0, 2, 1))])
def test_a_row_in_dram_moves_whole_as_a_column_does(source, axes, via):
    """A row and the column that it becomes have the same bytes: no element moves alone."""
    row = Shape.parse(source)
    cycles = []
    for shape in (row, Shape("f32", tuple(row.dims[axis] for axis in axes))):
        data, options = _counted(shape), Options(via=via)
        result, outcome, _ = run_transpose(
            ideal_chip(16, 8), str(shape), data, axes, home="dram", options=options
        )
        assert np.array_equal(result, data.transpose(axes))
        cycles.append(outcome.trace.cycles())
    assert cycles[0] == cycles[1]


@pytest.mark.parametrize("home", ["state_buffer", "dram"])
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_every_permutation_of_four_axes(order, home):
    data = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    result, *_ = run_transpose(ideal_chip(4, 4), "f32[2,3,4,5]", data, order, home=home)
    assert np.array_equal(result, data.transpose(order))


@pytest.mark.parametrize("seed", quick_first(range(60), 15))
def test_random_transposes(seed):
    """Any size, chip, drain, engine, identity, home and way give numpy's transpose."""
    rng = Random(seed)
    rows, cols = rng.randint(1, 9), rng.randint(1, 9)
    partitions = rng.randint(max(rows, cols), 12)
    chip = ideal_chip(
        rows, cols,
        state_buffer={"partitions": partitions, "banks": rng.choice([1, 8])},
        pe_array={
            "weight_buffer": rng.choice(["double", "single", "serial"]),
            "weight_path": rng.choice(["left", "top"]),
            "cycles_per_vector": {"f32": rng.choice([1, 4]), "bf16": 1, "s8": 1},
        },
        result_buffer={"banks": rng.randint(1, 4), "bank_bytes": 4 * rng.randint(12, 40)},
        dma={"queues": rng.randint(1, 4), "latency_cycles": rng.randint(0, 20)},
    )  # fmt: skip
    options = Options(
        drain=rng.choice(["row", "partition", "block"]),
        drain_engine=rng.choice(["activation", "pooling"]),
        identity=rng.choice(["stored", "built"]),
        via=rng.choice(["pe", "pe", "dram"]),
        block=rng.choice([None, (rng.randint(1, partitions), rng.randint(1, partitions))]),
    )
    m, n = rng.randint(1, 40), rng.randint(1, 40)
    dtype = rng.choice(["f32", "bf16", "s8"])
    data = np.arange(m * n).reshape(m, n).astype(np.int8).astype(data_type(dtype).numpy)
    home = rng.choice(["state_buffer", "dram"])
    result, outcome, compiled = run_transpose(
        chip, f"{dtype}[{m},{n}]", data, home=home, options=options
    )
    assert np.array_equal(result, data.T)
    assert outcome.trace.cycles() >= run_bound(compiled.graph, chip).cycles


@pytest.mark.parametrize(
    ("m", "n", "p", "q", "k"),
    [(300, 1000, 128, 128, 24), (4, 4, 4, 4, 1), (5, 4, 4, 4, 2), (128, 64, 128, 128, 1)],
)
def test_equation_1(m, n, p, q, k):
    assert ((m - 1) // p + 1) * ((n - 1) // q + 1) == k
    data = np.zeros((m, n), np.float32)
    *_, compiled = run_transpose(
        ideal_chip(128, 64), f"f32[{m},{n}]", data, options=Options(block=(p, q)), values=False
    )
    assert compiled.blocks.count == k


@pytest.mark.parametrize(
    ("rows", "cols", "shape", "drain"),
    quick_first(
        [
            (*array, drain)
            for drain in ("block", "row", "partition")
            for array in (
                (16, 16, (160, 160)),
                (8, 8, (64, 200)),
                (128, 64, (300, 1000)),
                (128, 128, (512, 512)),
            )
        ],
        10,
    ),
)
def test_schedules_come_within_5_percent_of_the_bound(rows, cols, shape, drain):
    """... plus one fill and drain, with a double buffer."""
    chip = ideal_chip(rows, cols)
    data = np.zeros(shape, np.float32)
    m, n = shape
    _, outcome, _ = run_transpose(
        chip, f"f32[{m},{n}]", data, options=Options(drain=drain), values=False
    )
    fill_and_drain = cols + result_cycles(chip, cols) + rows + 2
    vectors = -(-n // cols) * m
    assert outcome.trace.cycles() <= 1.05 * vectors + fill_and_drain


@pytest.mark.parametrize("engine", ["event", "register"])
@pytest.mark.parametrize("unit", ["activation", "pooling"])
@pytest.mark.parametrize("drain", ["block", "row", "partition"])
@pytest.mark.parametrize("independent", [True, False])
def test_a_block_takes_what_the_closed_formula_says(independent, drain, unit, engine):
    chip = ideal_chip(16, 8, **{unit: {"independent_lanes": independent}})
    data = np.arange(16 * 8, dtype=np.float32).reshape(16, 8)
    options = Options(drain=drain, drain_engine=unit)
    _, outcome, *_ = run_transpose(chip, "f32[16,8]", data, options=options, engine=engine)
    expected = transpose_block_cycles(chip, 16, 8, "f32", drain=drain, unit=unit)
    assert outcome.trace.cycles() == expected


def test_times_do_not_depend_on_values():
    data = np.arange(40 * 30, dtype=np.float32).reshape(40, 30)
    _, with_values, compiled = run_transpose(ideal_chip(8, 4), "f32[40,30]", data, home="dram")
    without = simulate(ideal_chip(8, 4), compiled.program, values=False)
    assert without.trace.times == with_values.trace.times
    assert without.trace.labels == with_values.trace.labels


def test_special_values_are_what_the_array_gives():
    """-0.0 becomes +0.0; a NaN or an infinity spreads over its column of the block only."""
    data = np.arange(1, 65, dtype=np.float32).reshape(8, 8)
    data[1, 2], data[5, 3], data[0, 0] = np.nan, np.inf, -0.0
    result, *_ = run_transpose(ideal_chip(4, 4), "f32[8,8]", data)
    expected = data.T.copy()
    expected[2, :4] = np.nan
    expected[3, 4:] = np.nan
    expected[3, 5] = np.inf
    expected[0, 0] = 0.0
    assert np.array_equal(result, expected, equal_nan=True)
    assert not np.signbit(result[0, 0])


@pytest.mark.parametrize(
    ("tables", "shape", "options", "message"),
    [
        (
            {"state_buffer": {"bytes_per_partition": 64}},
            "f32[8,8]",
            Options(block=(4, 4)),
            r"state_buffer of test 4 x 4 has no room for the result at its second address: .* "
            r"needs block 64 \+ result at its second address 64 \+ identity 16 = 144 bytes per "
            r"partition, found 64",
        ),
        (
            {"state_buffer": {"bytes_per_partition": 128}},
            "f32[8,8]",
            Options(block=(4, 4)),
            r"has no room for the identity: ",
        ),
        (
            {"state_buffer": {"bytes_per_partition": 64}},
            "f32[5,9]",
            Options(block=(4, 4)),
            r"has no room for the block: ",
        ),
        (
            {"result_buffer": {"bank_bytes": 12}},
            "f32[4,4]",
            Options(),
            r"result_buffer of test 4 x 4 is too small for one block: 4 rows of 4 bytes are "
            r"needed in a bank, found bank_bytes = 12",
        ),
        (
            {"pe_array": {"cycles_per_vector": {"bf16": 1}}},
            "f32[4,4]",
            Options(via="pe"),
            r"f32\[4,4\]\{1,0\}: the array of test 4 x 4 cannot take f32; it takes bf16",
        ),
        (
            {},
            "f32[4,4]",
            Options(block=(5, 4)),
            r"compile.block: rows of a block lie in partitions before or after the transpose; 5 "
            r"are wanted, test 4 x 4 has 4",
        ),
    ],
)
def test_what_does_not_fit_is_named(tables, shape, options, message):
    chip = ideal_chip(4, 4, **{"state_buffer": {"banks": 1}, **tables})
    if "state_buffer" in tables:
        chip = ideal_chip(
            4, 4, **{**tables, "state_buffer": {"banks": 1, **tables["state_buffer"]}}
        )
    parsed = Shape.parse(shape)
    with pytest.raises(CompileError, match=message):
        run_transpose(chip, shape, np.zeros(parsed.dims, parsed.dtype), options=options)
