"""Instructions with a fold, and with three operands: a scalar second statement for their values.

`support.scalar_lanes` says without numpy what an element is; here are the order of the elements and
the types between two steps. The operands are those of `test_lane_values`.
"""

from __future__ import annotations

from random import Random
from typing import get_args

import numpy as np
import pytest

from support import exact
from support import scalar_lanes as lanes
from support.lane_values import (
    REDUCED,
    SOURCE,
    TARGET,
    TENSOR,
    check,
    drawn,
    numbers,
    operand,
    run,
)
from systolic.hw.datatypes import DATA_TYPES
from systolic.isa import (
    ActivateReduce,
    ActivationFunction,
    AluOperation,
    Fold,
    ScalarTensorTensor,
    TensorScalarReduce,
)

WHOLE = sorted(set(get_args(AluOperation)) - {"power"})
FLOAT = sorted(set(WHOLE) & (set(lanes.FLOATS) | set(lanes.COMPARE)))


@pytest.mark.parametrize("source", DATA_TYPES)
def test_the_sum_of_a_function_is_that_of_its_float32_results(source: str) -> None:
    """In order, before the cast to the target's type; every function that is exact."""
    rng = np.random.default_rng(len(source))
    for turn, name in enumerate(sorted(set(get_args(ActivationFunction)) & lanes.EXACT)):
        target, reduced = Random(name).choices(list(DATA_TYPES), k=2)
        instruction = ActivateReduce(
            engine="activation", function=name, source=operand(source, SOURCE),
            target=operand(target, TARGET), reduced=operand(reduced, REDUCED, 1),
            scale=0.5, bias=-0.25,
        )  # fmt: skip
        values = drawn(rng, source)
        found = run(instruction, {instruction.source: values}, turn)
        wanted = [
            [lanes.activate(name, value, 0.5, -0.25) for value in lane]
            for lane in numbers(values, source)
        ]
        check(found["target"], wanted, target)
        check(found["reduced"], [[lanes.reduce("sum", lane)] for lane in wanted], reduced)


@pytest.mark.parametrize("fold", get_args(Fold))
@pytest.mark.parametrize("source", ["f32", "bf16", "f8e4m3fn", "s8", "s32"])
def test_a_fold_is_of_the_type_that_the_operation_gives(source: str, fold: str) -> None:
    rng, draw = np.random.default_rng(7), Random(source + fold)
    for turn in range(12):
        scalar = draw.choice([2, -3, 0.5, -1.25])
        whole = source in exact.INTEGERS and isinstance(scalar, int)
        op, reverse = draw.choice(WHOLE if whole else FLOAT), draw.random() < 0.5
        target, reduced = draw.choices(list(DATA_TYPES), k=2)
        instruction = TensorScalarReduce(
            engine="pooling", op=op, fold=fold, source=operand(source, SOURCE), scalar=scalar,
            target=operand(target, TARGET), reduced=operand(reduced, REDUCED, 1), reverse=reverse,
        )  # fmt: skip
        values = drawn(rng, source)
        found = run(instruction, {instruction.source: values}, turn)
        wanted = [
            [lanes.operate(op, *((scalar, v) if reverse else (v, scalar))) for v in lane]
            for lane in numbers(values, source)
        ]
        check(found["target"], wanted, target)
        check(found["reduced"], [[lanes.reduce(fold, lane)] for lane in wanted], reduced)


@pytest.mark.parametrize("source", ["f32", "bf16", "s8", "s32"])
@pytest.mark.parametrize("other", ["f32", "f16", "u8", "s32"])
def test_source_scalar_tensor(source: str, other: str) -> None:
    rng, draw = np.random.default_rng(3), Random(source + other)
    for turn in range(20):
        scalar = draw.choice([3, -1, 0.75, -2.5])
        whole = source in exact.INTEGERS and isinstance(scalar, int)
        op = draw.choice(WHOLE if whole else FLOAT)
        then = draw.choice(WHOLE if whole and other in exact.INTEGERS else FLOAT)
        flip, flip_then = draw.random() < 0.5, draw.random() < 0.5
        target = draw.choice(list(DATA_TYPES))
        instruction = ScalarTensorTensor(
            engine="pooling", op=op, then=then, source=operand(source, SOURCE), scalar=scalar,
            tensor=operand(other, TENSOR), target=operand(target, TARGET), reverse=flip,
            then_reverse=flip_then,
        )  # fmt: skip
        left, right = drawn(rng, source), drawn(rng, other)
        found = run(instruction, {instruction.source: left, instruction.tensor: right}, turn)
        wanted = []
        for mine, theirs in zip(numbers(left, source), numbers(right, other), strict=True):
            first = [lanes.operate(op, *((scalar, v) if flip else (v, scalar))) for v in mine]
            pairs = zip(first, theirs, strict=True)
            wanted.append(
                [lanes.operate(then, *((b, a) if flip_then else (a, b))) for a, b in pairs]
            )
        check(found["target"], wanted, target)


def test_a_fold_in_order_is_not_a_sum_in_pairs() -> None:
    """1e8 + 1 + ... + 1 - 1e8 in order loses every 1; in pairs or in float64 some would be left."""
    row = np.float32([[1e8, 1, 1, 1, 1, 1, -1e8]] * 3)
    instruction = ActivateReduce(
        engine="activation", function="identity", source=operand("f32", SOURCE),
        target=operand("bf16", TARGET), reduced=operand("f32", REDUCED, 1),
    )  # fmt: skip
    for turn in range(2):
        assert run(instruction, {instruction.source: row}, turn)["reduced"].tolist() == [[0.0]] * 3
