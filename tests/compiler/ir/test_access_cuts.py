"""Do the parts of an instruction take its elements in order, each within the chip's limits?"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from compiler.test_graph_values import random_chip, random_graph, random_values
from support.chips import able_chip, ideal_chip
from support.numpy_values import run_as_numpy
from systolic.compiler import Options
from systolic.compiler.ir.access_cuts import cut, faults_left
from systolic.compiler.pipeline import compile_graph
from systolic.hw.spec import Chip
from systolic.hw.spec.access_rules import AccessRules
from systolic.isa import Access, Buffer, Copy, Instruction, MatMul, Pool, Select, TensorTensor
from systolic.isa.instruction import ActivateReduce, Scan
from systolic.workload import GraphBuilder


def at(start: int, *pairs: tuple[int, int], dtype: str = "f32", lanes: int = 4) -> Access:
    return Access(Buffer.STATE, dtype, 0, lanes, start, pairs)


def copy(source: Access, target: Access) -> Copy:
    return Copy(engine="v", source=source, target=target)


def elements(parts: list[Instruction], name: str) -> list[int]:
    """The elements of an access, as numpy enumerates them, part after part."""
    return np.concatenate([getattr(part, name).offsets() for part in parts]).tolist()


def random_pattern(rng: Random, counts: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple((rng.choice([-9, -1, 0, 1, 2, 7, 40, 41]), count) for count in counts)


def random_counts(rng: Random, total: int) -> list[int]:
    """At most four counts whose product is the total."""
    counts = [total]
    for _ in range(rng.randint(0, 3)):
        factors = [n for n in range(1, counts[0] + 1) if counts[0] % n == 0]
        first = rng.choice(factors)
        counts[:1] = [first, counts[0] // first]
    return counts


@pytest.mark.parametrize("seed", range(200))
def test_parts_are_the_whole(seed: int) -> None:
    rng = Random(seed)
    rules = AccessRules(max_count=rng.randint(1, 30), max_step=rng.choice([1, 8, 40]))
    total = rng.choice([1, 12, 30, 36, 64, 97])
    whole = TensorTensor(
        engine="v",
        op="add",
        **{
            name: at(40_000, *random_pattern(rng, random_counts(rng, total)))
            for name in ("left", "right", "target")
        },
    )
    parts = cut(whole, rules)
    for name in ("left", "right", "target"):
        assert elements(parts, name) == getattr(whole, name).offsets().tolist(), name
    for part in parts:
        for access in (part.left, part.right, part.target):
            assert rules.fault(0, 4, access.pattern) == ""
        assert part.left.elements == part.right.elements == part.target.elements


@pytest.mark.parametrize("seed", range(100))
def test_parts_of_windows(seed: int) -> None:
    """No window is broken; what cannot be cut between windows stays as it is."""
    rng = Random(seed)
    rules = AccessRules(max_count=rng.randint(4, 30), max_step=rng.choice([8, 40]))
    window, many = rng.choice([1, 2, 4, 6]), rng.choice([6, 10, 36])
    source = at(40_000, *random_pattern(rng, random_counts(rng, window * many)))
    whole = Pool(engine="v", function="max", window=window, source=source, target=at(0, (1, many)))
    parts = cut(whole, rules)
    for name in ("source", "target"):
        assert elements(parts, name) == getattr(whole, name).offsets().tolist(), name
    if len(parts) > 1:
        for part in parts:
            assert part.source.elements == window * part.target.elements
            assert not any(rules.fault(0, 4, a.pattern) for a in (part.source, part.target))


def test_by_hand() -> None:
    """[300, 230] turned in each lane: 284 columns of 230 are the most that 65,535 has room for."""
    rules = AccessRules(max_count=65535, max_step=32767)
    turned = copy(at(0, (1, 69_000)), at(0, (1, 300), (300, 230)))
    assert cut(turned, rules) == [
        copy(at(0, (1, 65_320)), at(0, (1, 284), (300, 230))),
        copy(at(4 * 65_320, (1, 3_680)), at(4 * 284, (1, 16), (300, 230))),
    ]
    far = copy(at(0, (40_000, 2), (1, 5)), at(0, (1, 10)))
    assert cut(far, rules) == [
        copy(at(0, (1, 5)), at(0, (1, 5))),
        copy(at(160_000, (1, 5)), at(20, (1, 5))),
    ]
    assert cut(far, AccessRules()) == [far]
    assert cut(far, AccessRules(max_step=40_000)) == [far]


def test_what_is_not_cut() -> None:
    """Elements that depend on those before them or on places, and a result for all of them."""
    rules = AccessRules(max_count=3)
    four = at(0, (1, 4))
    one = at(400, (1, 1))
    for whole in (
        Scan(engine="v", op="add", then="add", left=four, right=four, initial=0.0, target=four),
        Select(engine="v", compare="equal", value=four, per_element=1, target=four),
        ActivateReduce(engine="v", function="identity", source=four, target=four, reduced=one),
    ):
        assert cut(whole, rules) == [whole]
    across = Pool(
        engine="v", function="max", window=4, source=at(0, (9, 2), (1, 2)), target=at(0, (1, 1))
    )
    assert cut(across, AccessRules(max_step=8)) == [across]


def test_faults_left() -> None:
    """A cut does not move an access to where it may begin."""
    start = [{"partitions": 4, "starts": [0]}]
    chip = able_chip(4, 4, access={"max_count": 3, "start": start})
    many = at(0, (1, 8))
    assert not faults_left(copy(many, many), chip)
    low = Access(Buffer.STATE, "f32", 1, 2, 0, ((1, 8),))
    assert faults_left(copy(low, low), chip)


def limited(rng: Random) -> Chip:
    """Return a random chip that can name few elements at once."""
    parts = random_chip(rng).model_dump(exclude={"engines"})
    rules = {"max_count": rng.choice([9, 12, 20]), "max_step": rng.choice([30, 60])}
    return Chip.model_validate(parts | {"access": rules})


@pytest.mark.parametrize("seed", range(12))
def test_values_of_random_graphs(seed: int) -> None:
    """Values are numpy's, both engines take as long, and the checker finds nothing."""
    rng = Random(seed)
    chip, graph = limited(rng), random_graph(rng)
    inputs = {name: random_values(rng, graph.shape(name)) for name in graph.inputs}
    run = run_as_numpy(graph, chip, inputs)
    if run is not None and run.cycles < 2000:
        assert systolic.run(graph, chip, inputs, engine="register").cycles == run.cycles


def test_a_large_transpose_on_the_chip() -> None:
    """More elements in a lane than a pair may count: this ended with a division by zero."""
    builder = GraphBuilder(home="state_buffer")
    x = builder.tensor("x", "u8[26,8,22]")
    builder.transpose(x, "u8[22,8,26]", (2, 1, 0), name="y")
    graph = builder.graph()
    whole, limited = (ideal_chip(8, 8, access=access) for access in ({}, {"max_count": 300}))
    alone = Options(drain_engine="activation")  # else both engines share the copy
    (one,) = compile_graph("p", graph, whole, alone).program.instructions
    assert isinstance(one, Copy)
    parts = compile_graph("p", graph, limited, alone).program.instructions
    assert len(parts) == 2
    assert {type(part) for part in parts} == {Copy}
    given = {"x": np.arange(26 * 8 * 22, dtype=np.uint8).reshape(26, 8, 22)}
    for engine in ("event", "register"):
        run = systolic.run(graph, limited, given, engine=engine)
        np.testing.assert_array_equal(run.outputs["y"], given["x"].transpose(2, 1, 0))


def test_a_multiply_takes_what_a_pair_counts() -> None:
    builder = GraphBuilder()
    lhs, rhs = builder.tensor("lhs", "f32[4,4]{0,1}"), builder.tensor("rhs", "f32[4,30]")
    builder.matmul(lhs, rhs, "f32[4,30]", name="y")
    compiled = compile_graph("p", builder.graph(), ideal_chip(4, 4, access={"max_count": 12}))
    found = [i.vectors for i in compiled.program.instructions if isinstance(i, MatMul)]
    assert sum(found) == 30
    assert max(found) <= 12
