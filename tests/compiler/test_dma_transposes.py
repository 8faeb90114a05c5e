"""When does the compiler let DMA transpose what it brings, and is the result still right?

Values are held against numpy, bit by bit; both engines take equally long, and no run is shorter
than its bound.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.runs import run_transpose
from support.tiers import quick_first
from systolic.bounds import run_bound
from systolic.compiler import Options, compile_graph
from systolic.compiler.cost.dma import as_transpose, copy_time, transpose_time
from systolic.config import load_chip
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose, MatMul, Program, lint
from systolic.machine import simulate
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder

V3 = load_chip(CHIPS / "neuroncore_v3.toml")
TRANSPOSES = {"element_bytes": (2, 4), "dram_percent": 90, "state_buffer_percent": 50}


def chip(**dma: Any) -> Chip:
    """Return a small chip whose descriptors are dear, and whose DMA transposes."""
    keys = {
        "queues": 4,
        "engines": 4,
        "partitions_per_engine": 2,
        "bytes_per_cycle": 8,
        "latency_cycles": 20,
        "outstanding": 4,
        "descriptor_cycles": 9,
        "descriptor_cost": "max",
        "transposes": TRANSPOSES,
        **dma,
    }
    return ideal_chip(8, 8, dma=keys, dram={"bytes_per_cycle": 64},
                      state_buffer={"port_scope": "bank"})  # fmt: skip


def without(on: Chip) -> Chip:
    """Return the chip whose DMA does not transpose."""
    return on.model_copy(update={"dma": on.dma.model_copy(update={"transposes": None})})


def product(dtype: str, lhs: str, rhs: str, sizes: tuple[int, int, int], out: str = "") -> Graph:
    M, K, N = sizes
    builder = GraphBuilder("dram")
    left = builder.tensor("lhs", f"{dtype}[{M},{K}]{lhs}")
    right = builder.tensor("rhs", f"{dtype}[{K},{N}]{rhs}")
    builder.matmul(left, right, f"{dtype}[{M},{N}]{out}", name="out")
    return builder.graph()


def inputs_of(graph: Graph, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = {name: graph.shape(name) for name in graph.inputs}
    return {
        name: rng.integers(-9, 9, shape.dims).astype(shape.dtype) for name, shape in shapes.items()
    }


def transposes_of(program: Program) -> int:
    return sum(isinstance(each, DmaTranspose) for each in program.instructions)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32", "f16"])
@pytest.mark.parametrize(
    ("dims", "permutation"),
    [((19, 13), (1, 0)), ((40, 6), (1, 0)), ((5, 16, 24), (0, 2, 1)), ((4, 6, 5, 8), (0, 3, 1, 2))],
)
def test_what_dma_transposes_is_what_numpy_does(
    dtype: str, dims: tuple[int, ...], permutation: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(5)
    data = rng.integers(-99, 99, dims).astype(data_type(dtype).numpy)
    shape = f"{dtype}[{','.join(map(str, dims))}]"
    for engine in ("event", "register"):
        found, outcome, compiled = run_transpose(
            chip(), shape, data, permutation, home="dram", engine=engine
        )
        assert np.array_equal(found, data.transpose(permutation))
        assert transposes_of(compiled.program)
        assert not lint(compiled.program, chip())
        cycles = outcome.trace.cycles()
        assert (
            cycles == run_transpose(chip(), shape, data, permutation, home="dram")[1].trace.cycles()
        )


@pytest.mark.parametrize("seed", quick_first(range(120), 8))
def test_random_products_and_transposes(seed: int) -> None:
    rng = Random(seed)
    on = chip(
        descriptor_cycles=rng.choice([0, 9, 30]),
        descriptor_cost=rng.choice(["max", "sum"]),
        transposes={**TRANSPOSES, "dram_percent": rng.choice([100, 90, 50, 5])},
    )
    if seed % 2:
        sizes = rng.randint(1, 20), rng.randint(1, 20), rng.randint(1, 20)
        layouts = [rng.choice(["", "{0,1}"]) for _ in range(3)]
        graph = product(rng.choice(["f32", "bf16"]), layouts[0], layouts[1], sizes, layouts[2])
    else:
        builder = GraphBuilder("dram")
        dims = tuple(rng.randint(1, 12) for _ in range(rng.choice([2, 3, 4])))
        order = tuple(rng.sample(range(len(dims)), len(dims)))
        dtype = rng.choice(["f32", "bf16", "s32", "s8"])
        source = builder.tensor("source", f"{dtype}[{','.join(map(str, dims))}]")
        made = f"{dtype}[{','.join(str(dims[axis]) for axis in order)}]"
        builder.transpose(source, made, permutation=order, name="made")
        graph = builder.graph()
    compile_graph("random", graph, on, verify=True)
    event, register = (
        systolic.run(graph, on, inputs_of(graph, seed), engine=name)
        for name in ("event", "register")
    )
    assert event.summary["values"]["equal"]
    assert register.summary["values"]["equal"]
    assert event.cycles == register.cycles
    assert event.cycles >= event.summary["bound"]["cycles"]
    assert not lint(event.program, on)


def test_random_work_is_transposed_by_dma_now_and_then() -> None:
    found = [
        transposes_of(systolic.run(product("f32", *pair, (20, 16, 12)), chip()).program)
        for pair in (("", ""), ("{0,1}", ""), ("", "{0,1}"), ("{0,1}", "{0,1}"))
    ]
    assert [bool(each) for each in found] == [True, False, True, True]


def test_a_type_that_the_array_does_not_take_goes_by_dma() -> None:
    """The array turns s32 byte by byte, in four products; DMA needs one pass over the bytes."""
    builder = GraphBuilder("dram")
    source = builder.tensor("source", "s32[512,512]")
    builder.transpose(source, "s32[512,512]", permutation=(1, 0), name="made")
    graph = builder.graph()
    result, before = (systolic.run(graph, on, values=False) for on in (V3, without(V3)))
    assert transposes_of(result.program)
    assert before.cycles > 1.2 * result.cycles


def test_a_product_leaves_its_turns_to_dma() -> None:
    """The array of `neuroncore_v3` multiplies instead of turning: the layout costs nothing."""
    sizes = (1024, 1024, 1024)
    rows = systolic.run(product("bf16", "", "", sizes), V3, values=False)
    turned = systolic.run(product("bf16", "{0,1}", "", sizes), V3, values=False)
    assert transposes_of(rows.program)
    assert rows.cycles < 1.02 * turned.cycles
    assert rows.cycles < 0.9 * systolic.run(
        product("bf16", "", "", sizes), without(V3), values=False
    ).cycles  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "s32"])
def test_what_is_slower_is_not_taken(dtype: str) -> None:
    """The array turns f32, and s32, which it does not take, comes element by element."""
    slow = chip(transposes={**TRANSPOSES, "dram_percent": 1})
    data = np.arange(24 * 16).reshape(24, 16).astype(data_type(dtype).numpy)
    found, _, compiled = run_transpose(slow, f"{dtype}[24,16]", data, home="dram")
    assert np.array_equal(found, data.T)
    assert not transposes_of(compiled.program)


def test_via_pe_turns_by_the_array_all_the_same() -> None:
    data = np.arange(24 * 16, dtype="f4").reshape(24, 16)
    _, _, compiled = run_transpose(
        chip(), "f32[24,16]", data, home="dram", options=Options(via="pe")
    )
    assert not transposes_of(compiled.program)
    assert any(isinstance(each, MatMul) for each in compiled.program.instructions)


def test_via_dram_reads_back_by_a_transpose() -> None:
    """A block of a tensor on the chip goes to DRAM by rows; its columns came one by one."""
    data = np.arange(24 * 16, dtype="f4").reshape(24, 16)
    found, outcome, compiled = run_transpose(
        chip(), "f32[24,16]", data, options=Options(via="dram")
    )
    assert np.array_equal(found, data.T)
    assert transposes_of(compiled.program)
    bound = run_bound(compiled.graph, chip())
    assert outcome.trace.cycles() >= bound.cycles
    plain = run_transpose(without(chip()), "f32[24,16]", data, options=Options(via="dram"))[1]
    assert outcome.trace.cycles() < plain.trace.cycles()


def test_via_dram_reads_back_by_a_copy_where_that_is_sooner() -> None:
    """The schedule, and not the plan, chooses between a copy and a transpose of the same bytes."""
    slow = chip(transposes={**TRANSPOSES, "dram_percent": 1})
    data = np.arange(24 * 16, dtype="f4").reshape(24, 16)
    found, _, compiled = run_transpose(slow, "f32[24,16]", data, options=Options(via="dram"))
    assert np.array_equal(found, data.T)
    assert not transposes_of(compiled.program)


def test_the_transpose_that_does_what_a_copy_does() -> None:
    target = Access(Buffer.STATE, "f32", 0, 8, 0, ((1, 5),))
    by_columns = Access(Buffer.DRAM, "f32", 0, 1, 64, ((1, 8), (8, 5)))
    assert as_transpose(chip(), by_columns, target) == Access(
        Buffer.DRAM, "f32", 0, 1, 64, ((1, 40),)
    )
    gaps = Access(Buffer.DRAM, "f32", 0, 1, 64, ((1, 8), (9, 5)))
    found = as_transpose(chip(), gaps, target)
    assert found == Access(Buffer.DRAM, "f32", 0, 1, 64, ((9, 5), (1, 8)))
    by_rows = Access(Buffer.DRAM, "f32", 0, 1, 64, ((5, 8), (1, 5)))
    assert as_transpose(chip(), by_rows, target) is None
    assert as_transpose(chip(transposes=None), gaps, target) is None
    assert as_transpose(chip(), target, by_rows) is None


@pytest.mark.parametrize(("rows", "cols"), [(512, 8), (40, 8), (300, 4), (64, 2)])
def test_the_estimate_of_a_lone_transpose_is_near_its_time(rows: int, cols: int) -> None:
    target = Access(Buffer.STATE, "f32", 0, cols, 0, ((1, rows),))
    matrix = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, rows * cols),))
    copy = DmaTranspose(dma_queue=0, source=matrix, target=target)
    cycles = simulate(chip(), Program("p", (copy,)), values=False).trace.cycles()
    assert transpose_time(chip(), matrix, target).cycles == pytest.approx(cycles, rel=0.02, abs=2)
    by_columns = Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, cols), (cols, rows)))
    plain = DmaCopy(dma_queue=0, source=by_columns, target=target)
    cycles = simulate(chip(), Program("p", (plain,)), values=False).trace.cycles()
    assert copy_time(chip(), by_columns, target).cycles == pytest.approx(cycles, rel=0.1)
