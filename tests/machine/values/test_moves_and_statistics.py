"""What moves, selects, scans and counts elements: a scalar second statement of the values."""

from __future__ import annotations

import math
from random import Random
from typing import Any, get_args

import numpy as np
import pytest

from support import exact
from support import scalar_lanes as lanes
from support.chips import able_chip
from support.lane_values import (
    ENGINES,
    REDUCED,
    SOURCE,
    TARGET,
    TENSOR,
    check,
    drawn,
    numbers,
    operand,
    patterns,
    run,
    stored,
)
from systolic.hw.datatypes import DATA_TYPES, data_type
from systolic.isa import (
    AluOperation,
    BnAggr,
    BnStats,
    CopyPredicated,
    Dropout,
    FindIndex8,
    Fold,
    MatchReplace8,
    Max8,
    PartitionReduce,
    Program,
    RangeSelect,
    Relation,
    Scan,
    SelectReduce,
    Shuffle,
    Transpose,
)
from systolic.machine import Image, simulate

FLOAT = sorted(set(get_args(AluOperation)) & (set(lanes.FLOATS) | set(lanes.COMPARE)) - {"power"})
WHOLE = sorted(set(get_args(AluOperation)) - {"power"})
BEFORE = np.arange(21).reshape(3, 7)
"""What a target holds before an instruction that keeps some of it."""


# -- moves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DATA_TYPES)
@pytest.mark.parametrize(("side", "partitions", "elements"), [(1, 3, 7), (2, 4, 6), (4, 4, 8)])
def test_each_block_is_turned_in_its_place(
    dtype: str, side: int, partitions: int, elements: int
) -> None:
    """Bit for bit: a NaN keeps its payload, and -0 its sign."""
    values = drawn(np.random.default_rng(side), dtype, elements, partitions)
    for turn in range(2):
        turned = Transpose(
            engine="pooling", source=operand(dtype, SOURCE, elements, partitions),
            target=operand(dtype, TARGET, elements, partitions), side=side,
        )  # fmt: skip
        found = patterns(run(turned, {turned.source: values}, turn)["target"])
        before = patterns(values)
        for p in range(partitions):
            for i in range(elements):
                lane, element = p // side * side + i % side, i // side * side + p % side
                assert found[p][i] == before[lane][element]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8"])
@pytest.mark.parametrize("mask", [(2, 0, 1), (255, 0, 0), (0,), (255,), (1, 255, 255)])
def test_lanes_are_shuffled_in_groups_or_keep_what_they_have(
    dtype: str, mask: tuple[int, ...]
) -> None:
    values = drawn(np.random.default_rng(1), dtype)
    before = BEFORE.astype(data_type(dtype).numpy)
    for turn in range(2):
        made = Shuffle(
            engine="pooling", source=operand(dtype, SOURCE), target=operand(dtype, TARGET),
            mask=mask,
        )  # fmt: skip
        found = run(made, {made.source: values, made.target: before}, turn)["target"]
        size = len(mask)
        for p in range(3):
            entry = mask[p % size]
            wanted = before[p] if entry == 255 else values[p // size * size + entry]
            assert patterns(found)[p] == patterns(wanted[None, :])[0]


@pytest.mark.parametrize("source", ["f32", "bf16", "s32"])
@pytest.mark.parametrize("predicate", ["f32", "u8"])
def test_copy_predicated_keeps_the_others(source: str, predicate: str) -> None:
    rng, target = np.random.default_rng(2), {"f32": "bf16", "bf16": "bf16", "s32": "f32"}[source]
    values, where = drawn(rng, source), drawn(rng, predicate)
    where[:, ::2] = 0
    before = BEFORE.astype(data_type(target).numpy)
    for turn in range(2):
        made = CopyPredicated(
            engine="pooling", source=operand(source, SOURCE),
            predicate=operand(predicate, TENSOR), target=operand(target, TARGET),
        )  # fmt: skip
        images = {made.source: values, made.predicate: where, made.target: before}
        found = run(made, images, turn)["target"]
        wanted = [
            [v if w != 0 else b for v, w, b in zip(*rows, strict=True)]
            for rows in zip(
                numbers(values, source), numbers(where, predicate), numbers(before, target),
                strict=True,
            )
        ]  # fmt: skip
        check(found, wanted, target)


# -- selection -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["f32", "bf16", "s32"])
@pytest.mark.parametrize("fold", get_args(Fold))
def test_select_reduce(source: str, fold: str) -> None:
    rng, draw = np.random.default_rng(5), Random(source + fold)
    for turn in range(6):
        values, where = drawn(rng, source), rng.integers(0, 2, (3, 7)).astype(np.float32)
        other, reverse = draw.choice([4, -0.5, math.inf]), draw.random() < 0.5
        target, reduced = draw.choices(list(DATA_TYPES), k=2)
        made = SelectReduce(
            engine="pooling", fold=fold, source=operand(source, SOURCE),
            predicate=operand("f32", TENSOR), other=other, target=operand(target, TARGET),
            reduced=operand(reduced, REDUCED, 1), reverse=reverse,
        )  # fmt: skip
        found = run(made, {made.source: values, made.predicate: where}, turn)
        wanted = [
            [v if (w != 0) != reverse else other for v, w in zip(row, there, strict=True)]
            for row, there in zip(numbers(values, source), where.tolist(), strict=True)
        ]
        if source not in exact.INTEGERS or isinstance(other, float):
            wanted = [[lanes.single(v) for v in row] for row in wanted]
        check(found["target"], wanted, target)
        check(found["reduced"], [[lanes.reduce(fold, row)] for row in wanted], reduced)


@pytest.mark.parametrize("compare", get_args(Relation))
@pytest.mark.parametrize("source", ["f32", "s32"])
def test_range_select(compare: str, source: str) -> None:
    rng, draw = np.random.default_rng(6), Random(compare)
    for turn in range(6):
        end = draw.choice(get_args(Relation))
        fold, base = draw.choice(get_args(Fold)), draw.randint(-3, 3)
        bounds = [draw.choice([0, 2, -1.5, 3.0]) for _ in range(2)]
        target = draw.choice(list(DATA_TYPES))
        made = RangeSelect(
            engine="pooling", fold=fold, compare=compare, compare_end=end,
            source=operand(source, SOURCE), bound=bounds[0], end=bounds[1],
            target=operand(target, TARGET), reduced=operand("f32", REDUCED, 1), base=base,
            other=-7.5,
        )  # fmt: skip
        values = drawn(rng, source)
        found = run(made, {made.source: values}, turn)
        wanted = [
            [
                lanes.single(v)
                if lanes.COMPARE[compare](base + i, bounds[0])
                and lanes.COMPARE[end](base + i, bounds[1])
                else -7.5
                for i, v in enumerate(row)
            ]
            for row in numbers(values, source)
        ]
        check(found["target"], wanted, target)
        check(found["reduced"], [[lanes.reduce(fold, row)] for row in wanted], "f32")


def fmix32(bits: int) -> int:
    """Return the last steps of MurmurHash3, in Python's integers."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = (bits ^ bits >> shift) * factor % 2**32
    return bits ^ bits >> 16


def test_the_mixing_is_murmurs() -> None:
    """The published test vectors of its 32-bit hash for no bytes: the seed, mixed."""
    found = [fmix32(seed) for seed in (0, 1, 0xFFFFFFFF)]
    assert found == [0, 0x514E28B7, 0x81F16F39]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32"])
@pytest.mark.parametrize("probability", [0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("seed", [0, -3, 2**31 - 1])
def test_dropout(dtype: str, probability: float, seed: int) -> None:
    values = drawn(np.random.default_rng(4), dtype)
    places = [
        [(seed * 0x9E3779B9 + p * 0x85EBCA77 + i * 0xC2B2AE3D) % 2**32 for i in range(7)]
        for p in range(3)
    ]
    dropped = [[(fmix32(n) >> 8) / 2**24 < probability for n in row] for row in places]
    for turn in range(2):
        made = Dropout(
            engine="pooling", source=operand(dtype, SOURCE), target=operand(dtype, TARGET),
            probability=probability, seed=seed,
        )  # fmt: skip
        found = patterns(run(made, {made.source: values}, turn)["target"])
        assert found == [
            [0 if off else bits for bits, off in zip(*rows, strict=True)]
            for rows in zip(patterns(values), dropped, strict=True)
        ]


def test_dropout_drops_as_many_as_it_says() -> None:
    """Of 128 lanes of 512 ones a quarter, within five standard deviations (of 111)."""
    chip = able_chip(128, 4)
    source, target = operand("f32", SOURCE, 512, 128), operand("f32", TARGET, 512, 128)
    made = Dropout(engine="pooling", source=source, target=target, probability=0.25, seed=1)
    ones = np.ones((128, 512), np.float32)
    memory = simulate(chip, Program("drop", (made,)), [Image(source, ones)]).memory
    kept = memory.read(target)
    assert abs((kept == 0).sum() - 16384) < 5 * 111
    assert ((kept == 0).mean(axis=0) < 0.5).all()  # no element is dropped in most lanes


# -- scans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", ["f32", "bf16", "s32"])
@pytest.mark.parametrize("right", ["f32", "s8"])
def test_a_scan_carries_what_was_computed(left: str, right: str) -> None:
    """Not what the target holds: a result enters the next one before its cast."""
    rng, draw = np.random.default_rng(8), Random(left + right)
    for turn in range(24):
        initial = draw.choice([1, -2, 0.5])
        whole = left in exact.INTEGERS and isinstance(initial, int)
        both = whole and right in exact.INTEGERS
        op = draw.choice(WHOLE if both else FLOAT)
        then, target = draw.choice(WHOLE if both else FLOAT), draw.choice(list(DATA_TYPES))
        made = Scan(
            engine="activation", op=op, then=then, left=operand(left, SOURCE),
            right=operand(right, TENSOR), target=operand(target, TARGET), initial=initial,
        )  # fmt: skip
        one, two = drawn(rng, left), drawn(rng, right)
        found = run(made, {made.left: one, made.right: two}, turn)["target"]
        wanted: list[list[Any]] = []
        for mine, theirs in zip(numbers(one, left), numbers(two, right), strict=True):
            before: Any = initial
            row = []
            for a, b in zip(mine, theirs, strict=True):
                before = lanes.operate(then, lanes.operate(op, a, before), b)
                row.append(before)
            wanted.append(row)
        check(found, wanted, target)


# -- statistics ----------------------------------------------------------------------------------


def moments(values: list[float]) -> list[float]:
    """Return count, mean and count * variance: two passes, each sum in order, each step rounded."""
    if not values:
        return [0.0, 0.0, 0.0]
    count = float(len(values))
    mean = lanes.divide(lanes.reduce("sum", values), count)
    squares = [lanes.multiply(d, d) for d in (lanes.add(v, -mean) for v in values)]
    return [count, mean, lanes.single(lanes.reduce("sum", squares))]


@pytest.mark.parametrize("source", ["f32", "bf16", "s8"])
@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_bn_stats(source: str, count: int) -> None:
    values = drawn(np.random.default_rng(count), source, count)
    for turn, target in enumerate(("f32", "bf16")):
        made = BnStats(
            engine="pooling", source=operand(source, SOURCE, count),
            target=operand(target, TARGET, 6),
        )  # fmt: skip
        found = run(made, {made.source: values}, turn)["target"]
        wanted = []
        for row in numbers(values, source):
            single = [lanes.single(v) for v in row]
            wanted.append(moments(single[::2]) + moments(single[1::2]))
        check(found, wanted, target)


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_bn_aggr(groups: int) -> None:
    values = drawn(np.random.default_rng(groups), "f32", 3 * groups)
    values[:, ::3] = np.random.default_rng(1).integers(1, 10, (3, groups))  # counts
    values[0, 0] = 0
    made = BnAggr(
        engine="pooling", source=operand("f32", SOURCE, 3 * groups),
        target=operand("f32", TARGET, 2),
    )  # fmt: skip
    wanted = []
    for row in numbers(values, "f32"):
        counts, means, squares = row[::3], row[1::3], row[2::3]
        total = lanes.reduce("sum", counts)
        weighted = [lanes.multiply(c, m) for c, m in zip(counts, means, strict=True)]
        mean = lanes.divide(lanes.reduce("sum", weighted), total)
        spread = []
        for c, m, s in zip(counts, means, squares, strict=True):
            away = lanes.add(m, -mean)
            spread.append(lanes.add(s, lanes.multiply(c, lanes.multiply(away, away))))
        wanted.append([mean, lanes.divide(lanes.reduce("sum", spread), total)])
    for turn in range(2):
        check(run(made, {made.source: values}, turn)["target"], wanted, "f32")


def test_the_two_together_are_numpys_mean_and_variance() -> None:
    """In whole numbers that float32 holds exactly, in three parts of unequal size."""
    values = np.random.default_rng(0).integers(-8, 9, (3, 24)).astype(np.float32) * 24
    stats = []
    for first, stop in ((0, 4), (4, 16), (16, 24)):
        part = BnStats(
            engine="pooling", source=operand("f32", SOURCE, stop - first),
            target=operand("f32", TARGET, 6),
        )  # fmt: skip
        stats.append(run(part, {part.source: values[:, first:stop]}, first)["target"])
    both = BnAggr(
        engine="pooling", source=operand("f32", SOURCE, 18), target=operand("f32", TARGET, 2)
    )
    found = run(both, {both.source: np.concatenate(stats, axis=1)}, 0)["target"]
    wide = values.astype(np.float64)
    wanted = np.stack([wide.mean(axis=1), wide.var(axis=1)], axis=1)
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("source", DATA_TYPES)
@pytest.mark.parametrize("count", [8, 15])
def test_max8(source: str, count: int) -> None:
    """A NaN is larger than all; of equal ones (+0 and -0 are) the earlier comes first."""
    values = drawn(np.random.default_rng(count), source, count)
    target = "s32" if source in exact.INTEGERS else "f32"
    made = Max8(
        engine="pooling", source=operand(source, SOURCE, count), target=operand(target, TARGET, 8)
    )
    wanted = [
        sorted(row, key=lambda v: (not math.isnan(v), 0 if math.isnan(v) else -v))[:8]
        for row in numbers(values, source)
    ]
    for turn in range(2):
        check(run(made, {made.source: values}, turn)["target"], wanted, target)


def searched(rng: np.random.Generator, source: str, values: str, count: int) -> tuple[Any, Any]:
    """Return a source and eight values, most of which it has, and some of which are equal."""
    data = drawn(rng, source, count)
    values_of = drawn(rng, values, 8)
    some = rng.integers(0, count, values_of.shape)
    with np.errstate(all="ignore"):
        mine = np.take_along_axis(data, some, axis=1).astype(data_type(values).numpy)
    return data, np.where(rng.random(values_of.shape) < 0.8, mine, values_of)


def by_hand(row: list[Any], values: list[Any], order: range) -> list[int]:
    """Return where each value is: they take turns in that order, each the first that is left."""
    left, found = dict(enumerate(row)), dict.fromkeys(range(8), -1)
    for place in order:
        equal = [at for at, element in left.items() if element == values[place]]
        if equal:
            found[place] = min(equal)
            del left[found[place]]
    return [found[place] for place in range(8)]


TYPES_SEARCHED = [(t, t) for t in DATA_TYPES] + [("bf16", "f32"), ("s8", "f32"), ("s32", "u8")]


@pytest.mark.parametrize(("source", "values"), TYPES_SEARCHED)
@pytest.mark.parametrize("count", [8, 15])
def test_find_index8(source: str, values: str, count: int) -> None:
    for turn in range(4):
        data, sought = searched(np.random.default_rng(count + turn), source, values, count)
        made = FindIndex8(
            engine="pooling", source=operand(source, SOURCE, count),
            values=operand(values, TENSOR, 8), target=operand("s32", TARGET, 8),
        )  # fmt: skip
        found = run(made, {made.source: data, made.values: sought}, turn)["target"]
        wanted = [
            by_hand(row, eight, range(8))
            for row, eight in zip(numbers(data, source), numbers(sought, values), strict=True)
        ]
        assert found.tolist() == wanted


@pytest.mark.parametrize(("source", "values"), TYPES_SEARCHED)
@pytest.mark.parametrize("count", [3, 8, 15])
@pytest.mark.parametrize("other", [-1.5, 7, -math.inf])
def test_match_replace8(source: str, values: str, count: int, other: float) -> None:
    """Bit for bit: what is not replaced keeps the payload of a NaN, and the sign of -0."""
    for turn in range(2):
        data, sought = searched(np.random.default_rng(count + turn), source, values, count)
        made = MatchReplace8(
            engine="pooling", source=operand(source, SOURCE, count), other=other,
            values=operand(values, TENSOR, 8), target=operand(source, TARGET, count),
            indices=operand("s32", REDUCED, 8),
        )  # fmt: skip
        images = [Image(made.source, data), Image(made.values, sought)]
        program = Program("searched", (made,))
        memory = simulate(able_chip(4, 4), program, images, engine=ENGINES[turn]).memory
        wanted = [
            by_hand(row, eight, range(7, -1, -1))
            for row, eight in zip(numbers(data, source), numbers(sought, values), strict=True)
        ]
        assert memory.read(made.indices).tolist() == wanted
        expected = patterns(data)
        for row, places in zip(expected, wanted, strict=True):
            for place in places:
                if place >= 0:
                    row[place] = stored(other, source)
        assert patterns(memory.read(made.target)) == expected


def test_equal_values_as_published() -> None:
    """The example of nki.isa, SDK 2.32: `nc_find_index8` gives them in ascending order instead."""
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    sought = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], np.float32)
    source, values = operand("f32", SOURCE, 11, 1), operand("f32", TENSOR, 8, 1)
    index = operand("s32", REDUCED, 8, 1)
    replace = MatchReplace8(
        engine="pooling", source=source, values=values, target=operand("f32", TARGET, 11, 1),
        other=0.0, indices=index,
    )  # fmt: skip
    find = FindIndex8(engine="pooling", source=source, values=values, target=index)
    for engine in ENGINES:
        both = [
            simulate(
                able_chip(4, 4), Program("equal", (made,)),
                [Image(source, data), Image(values, sought)], engine=engine,
            ).memory
            for made in (replace, find)
        ]  # fmt: skip
        assert both[0].read(index).tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
        assert both[1].read(index).tolist() == [[2, 4, 5, 6, 7, 8, 9, 10]]
        assert both[0].read(replace.target).tolist() == [[1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("fold", get_args(Fold))
@pytest.mark.parametrize("source", ["f32", "f16", "s8", "s32"])
def test_a_fold_over_the_partitions_in_their_order(source: str, fold: str) -> None:
    values = drawn(np.random.default_rng(9), source)
    target = "s32" if source in exact.INTEGERS else "f32"
    made = PartitionReduce(
        engine="activation", fold=fold, source=operand(source, SOURCE),
        target=operand(target, TARGET, lanes=1),
    )  # fmt: skip
    columns = zip(*numbers(values, source), strict=True)
    wanted = [[lanes.reduce(fold, column) for column in columns]]
    for turn in range(2):
        check(run(made, {made.source: values}, turn)["target"], wanted, target)
