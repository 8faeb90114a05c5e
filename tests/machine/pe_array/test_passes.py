"""What do passes and the least number of vectors cost? Worked by hand, on both engines.

Passes: the vectors of a multiply are streamed several times; the last time makes the sums, so
PSUM is written in that pass alone. Least vectors: a multiply of few vectors holds the array longer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from systolic.config import load_chip
from systolic.isa import LoadWeights, MatMul, Post, Program
from systolic.machine import Image, simulate
from systolic.shipped import CHIPS

both = pytest.mark.parametrize("engine", ["event", "register"])
MOVING = 8192
RNG = np.random.default_rng(11)
WEIGHTS = RNG.standard_normal((4, 4)).astype(np.float32)
VECTORS = RNG.standard_normal((4, 5)).astype(np.float32)
IMAGES = [Image(state(0, 4, 0, 4), WEIGHTS), Image(state(0, 4, MOVING, 5), VECTORS)]
LOAD = LoadWeights(weights=IMAGES[0].access)
TWICE = {"cycles_per_vector": {"f32": 2}, "passes": {"f32": 2}}


def multiply(vectors: int, cols: int = 4, row: int = 0, **keys: Any) -> MatMul:
    return MatMul(moving=state(0, 4, MOVING, vectors), result=psum(0, cols, row, vectors), **keys)


def run(engine: Any, *instructions: Any, **keys: Any) -> Any:
    chip = ideal_chip(4, 4, pe_array=keys)
    program = Program("passes", instructions, ("s0",))
    kinds = ("inject", "psum_write")
    return simulate(chip, program, IMAGES, engine=engine, kinds=kinds, grid=True)


def starts(engine: Any, *instructions: Any, **keys: Any) -> list[int]:
    return [times.start for times in run(engine, *instructions, **keys).trace.times]


def ticks(outcome: Any, kind: str) -> list[int]:
    return sorted(set(outcome.trace.words.of(kind).rows["tick"].tolist()))


@both
def test_the_vectors_are_read_in_every_pass_and_the_sums_written_in_the_last(engine):
    """Load in 0 to 3; five vectors at a distance of 2 in 4 to 12, and again in 14 to 22."""
    outcome = run(engine, LOAD, multiply(5), **TWICE)
    assert ticks(outcome, "inject") == list(range(4, 23, 2))
    assert ticks(outcome, "psum_write") == list(range(14 + 3, 22 + 3 + 3 + 1))
    assert outcome.trace.cycles() == 22 + 3 + 3 + 1
    # Each vector holds the write port for 4 cycles, one begins 2 cycles after the other.
    assert outcome.trace.port_cycles["result_buffer", 0, "write"] == 4 * 2 + 4
    assert outcome.trace.port_cycles["state_buffer", 1, "read"] == 10


@both
def test_the_values_are_those_of_one_pass(engine):
    expected = np.zeros((4, 5), np.float32)
    for row in range(4):  # in the order of the rows, product and sum each rounded
        expected += WEIGHTS[row][:, None] * VECTORS[row][None, :]
    outcome = run(engine, LOAD, multiply(5), **TWICE)
    assert (outcome.memory.read(psum(0, 4, 0, 5)) == expected).all()
    again = run(engine, LOAD, multiply(5), multiply(5, accumulate=True), **TWICE)
    assert (again.memory.read(psum(0, 4, 0, 5)) == expected + expected).all()


@both
def test_weights_are_exchanged_with_the_first_injection_of_the_first_pass(engine):
    grid = run(engine, LOAD, multiply(5), **TWICE).trace.grid
    assert grid.at(3).weight[0, 0] == 0
    assert grid.at(4).weight[0, 0] == WEIGHTS[0, 0]
    assert grid.at(4 + 2 + 3).weight[2, 3] == WEIGHTS[2, 3]
    assert not any(grid.at(cycle).valid.any() for cycle in range(14))
    assert grid.at(14).valid[0, 0]
    assert grid.at(14).moving[0, 0] == VECTORS[0, 0]


@both
@pytest.mark.parametrize(
    ("buffer", "expected"),
    [
        ("double", [0, 4, 4, 10]),  # with the first injection of the first pass
        ("single", [0, 4, 9, 13]),  # with the last injection of the last pass
        ("serial", [0, 4, 16, 20]),  # 9, and 7 cycles until the last PE has multiplied
    ],
)
def test_the_next_load(engine, buffer, expected):
    """Two vectors in three passes are injected in 4 to 9."""
    keys = {"passes": {"f32": 3}, "weight_buffer": buffer}
    assert starts(engine, LOAD, multiply(2), LOAD, multiply(2, row=2), **keys) == expected


@both
def test_posts_of_rows_follow_the_last_pass(engine):
    """Vectors in 4, 5 and again in 6, 7: the last columns take their sums in 6 + 6 and 7 + 6."""
    posting = multiply(2, posts=(Post(0, "row"),))
    outcome = run(engine, LOAD, posting, passes={"f32": 2})
    assert [event.tick for event in outcome.trace.semaphores if event.kind == "post"] == [12, 13]


@both
@pytest.mark.parametrize(
    ("keys", "cols", "vectors", "expected"),
    [
        ({}, 4, 1, [0, 4, 5]),
        ({"min_vectors": 3}, 4, 1, [0, 4, 7]),
        ({"min_vectors": 3}, 2, 1, [0, 4, 6]),  # as many as it uses columns
        ({"min_vectors": 3}, 4, 5, [0, 4, 9]),
        ({"min_vectors": 3, "min_interval_cycles": 8}, 4, 1, [0, 4, 12]),
        ({"min_vectors": 3, **TWICE}, 4, 1, [0, 4, 4 + 3 * 2 * 2]),
    ],
)
def test_a_multiply_holds_the_array_for_its_least_vectors(engine, keys, cols, vectors, expected):
    assert starts(engine, LOAD, multiply(vectors, cols), multiply(1, row=9), **keys) == expected


# Products on the NeuronCores: Ns stationary and Nm moving columns, one after another.

CORES = {name: load_chip(CHIPS / f"neuroncore_{name}.toml") for name in ("v2", "v3", "v4")}


def products(stationary: int, moving: int, dtype: str, *, reload: bool = True) -> Program:
    """Return four products; with `reload` each loads its weights."""
    bank = 24576
    load = LoadWeights(weights=state(0, 128, 0, stationary, dtype))
    each = [
        MatMul(
            moving=state(0, 128, 2 * bank, moving, dtype),
            result=psum(0, stationary, 512 * n, moving),
        )
        for n in range(4)
    ]
    chain = [step for one in each for step in (load, one)] if reload else [load, *each]
    return Program("products", tuple(chain))


def distances(chip: Any, program: Program, engine: Any) -> set[int]:
    """Return the cycles from the start of each multiply to that of the next."""
    trace = simulate(chip, program, engine=engine, values=engine == "register").trace
    at = [
        times.start // chip.period("pe_array")
        for times in trace.times
        if isinstance(program.instructions[times.instruction], MatMul)
    ]
    return {after - before for before, after in pairwise(sorted(at))}


@both
@pytest.mark.parametrize(("dtype", "factor"), [("bf16", 1), ("f32", 4)])
@pytest.mark.parametrize(
    ("stationary", "moving"), [(1, 1), (1, 128), (128, 1), (32, 7), (64, 64), (128, 300)]
)
def test_chain_of_products(engine, dtype, factor, stationary, moving):
    """nc_matmul of nki.isa (SDK 2.26): max(min(64, Ns), Nm), four times that for float32."""
    found = distances(CORES["v2"], products(stationary, moving, dtype), engine)
    assert found == {factor * max(min(64, stationary), moving)}


@both
def test_the_published_products_of_one_vector(engine):
    """[1, 128] x [128, 128] takes 64 cycles with the vector moving, 128 with it stationary."""
    assert distances(CORES["v2"], products(128, 1, "bf16"), engine) == {64}
    assert distances(CORES["v2"], products(1, 128, "bf16"), engine) == {128}


@both
@pytest.mark.parametrize("moving", [1, 64, 200, 512])
def test_multiplies_with_the_same_weights(engine, moving):
    """Initiation interval of MultiplyMoving: max(N, 64), with 64 stationary columns or more."""
    for stationary in (64, 128):
        program = products(stationary, moving, "bf16", reload=False)
        assert distances(CORES["v2"], program, engine) == {max(moving, 64)}


@both
@pytest.mark.parametrize(("partitions", "elements"), [(128, 128), (128, 16), (32, 128), (7, 3)])
def test_transposes(engine, partitions, elements):
    """nc_transpose of nki.isa: max(P, min(64, F)); the input stands, an identity of P moves."""
    found = distances(CORES["v2"], products(elements, partitions, "bf16"), engine)
    assert found == {max(partitions, min(64, elements))}


@both
@pytest.mark.parametrize(
    ("name", "dtype", "columns", "nanoseconds"),
    [
        ("v2", "bf16", 128, 188),  # a MATMUL of 128 columns
        ("v3", "f32", 512, 597),  # one of the two of a float32 product, read off to 50 cycles
    ],
)
def test_the_length_of_a_matmul_in_published_profiles(engine, name, dtype, columns, nanoseconds):
    """From the first injection of the last pass to the last sum: 526 and about 1433 cycles."""
    chip = CORES[name]
    program = products(128, columns, dtype)
    times = simulate(chip, program, engine=engine).trace.times[1]
    period = chip.period("pe_array")
    last_pass = (columns - 1) * chip.pe_array.cycles_per_vector[dtype]
    cycles = (times.done - times.last) // period + last_pass + 1
    assert cycles * 1000 / chip.clock_mhz("pe_array") == pytest.approx(nanoseconds, abs=1)


@pytest.mark.parametrize("name", CORES)
def test_a_512_column_product_on_every_core(name):
    assert distances(CORES[name], products(128, 512, "bf16"), "event") == {512}
    assert distances(CORES[name], products(128, 512, "f32"), "event") == {4 * 512}
