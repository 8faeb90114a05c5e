"""What the lanes of the engines compute: pure functions of arrays [lanes, elements]. No time.

Operands are taken to float32, integers to int32 where an instruction says so; each step rounds as
`systolic.machine.values.activation_functions` and `systolic.machine.values.arithmetic` say; a NaN
that was computed is 0x7FC00000; the result is cast to the target's type. What only moves elements
(`KEEPING_BITS`) keeps the bits of what it does not cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.hw.datatypes import data_type
from systolic.isa import (
    Access,
    Activate,
    ActivateReduce,
    BnAggr,
    BnStats,
    Copy,
    CopyDynamicDst,
    CopyDynamicSrc,
    CopyPredicated,
    Dropout,
    FindIndex8,
    Fold,
    Iota,
    LocalGather,
    MatchReplace8,
    Max8,
    Memset,
    OnEngine,
    PartitionReduce,
    Pool,
    QuantizeMx,
    RangeSelect,
    Requantise,
    ScalarTensorTensor,
    Scan,
    Select,
    SelectReduce,
    Shuffle,
    TensorScalar,
    TensorScalarReduce,
    TensorTensor,
    TopK,
    Transpose,
)
from systolic.isa.effects import results_per_lane, scales_touched, target_of
from systolic.isa.instruction.on_engine import UNCHANGED
from systolic.isa.opcodes import BY_CLASS, engine_instructions, require_rows
from systolic.machine.memory import cast
from systolic.machine.values.activation_functions import apply
from systolic.machine.values.arithmetic import COMPARISONS, REDUCTIONS, operate
from systolic.machine.values.microscaling import quantised, scales_for
from systolic.machine.values.random_bits import uniform


@dataclass(frozen=True, slots=True)
class OperandValues:
    """What was read for some consecutive elements of the target.

    elements: [lanes, read] for each operand that is read element by element; per_lane: [lanes, 1],
    or [lanes, few], for each operand that is not; first, count: which elements of the target. kept:
    what the target has there, of an instruction that leaves some of it as it is.
    """

    elements: Sequence[Array]
    per_lane: Sequence[Array]
    first: int
    count: int
    kept: Array | None = None


KEEPING_BITS = (
    Copy, CopyDynamicSrc, CopyDynamicDst, LocalGather, Select, Transpose, Shuffle, CopyPredicated,
    Dropout, MatchReplace8, TopK,
)  # fmt: skip
"""What moves elements, and so keeps the bits of a NaN where it casts nothing."""


def compute(instruction: OnEngine, operands: OperandValues) -> Array:
    """Return the values to be written, [lanes, count], in the type of the target."""
    with np.errstate(all="ignore"):
        values = _COMPUTE[type(instruction)](instruction, operands)
        return _stored(instruction, values, target_of(instruction))


def results(instruction: OnEngine, operands: OperandValues) -> tuple[Array, ...]:
    """Return what is written once per lane, each [lanes, 1], from all that was read."""
    return compute_all(instruction, operands)[1:]


def scales(instruction: OnEngine, operands: OperandValues) -> list[Array]:
    """Return the scales of these elements of the target, [scales, groups] for each quadrant."""
    parts = scales_touched(instruction)
    if not parts:
        return []
    assert isinstance(instruction, QuantizeMx)
    made = _scales(instruction, operands).view(data_type(parts[0].dtype).numpy)
    stops = np.cumsum([part.partitions for part in parts])
    return np.split(made, stops[:-1])


def compute_all(instruction: OnEngine, operands: OperandValues) -> tuple[Array, ...]:
    """Return all that an instruction writes: the target, scales of it, and those once per lane."""
    with np.errstate(all="ignore"):
        values = _COMPUTE[type(instruction)](instruction, operands)
        found = [_stored(instruction, values, target_of(instruction))]
        found += scales(instruction, operands)
        if behind := results_per_lane(instruction):
            made = _RESULTS[type(instruction)](instruction, operands, values)
            found += [_stored(instruction, v, a) for v, a in zip(made, behind, strict=True)]
        return tuple(found)


def _stored(instruction: OnEngine, values: Array, access: Access) -> Array:
    """Return the values in the type of the access."""
    if not isinstance(instruction, KEEPING_BITS) and values.dtype == np.float32:
        values = np.where(np.isnan(values), np.float32(np.nan), values)
    return cast(values, access.dtype)


def constant(value: float) -> Array:
    """Return a number as the engines hold it: int32 if it is an int, else float32."""
    return np.asarray(value, np.int32 if isinstance(value, int) else np.float32)


def _plain(values: Array) -> Array:
    """Return the values in their accumulator's type, int32 or float32."""
    return values.astype(np.int32 if np.issubdtype(values.dtype, np.integer) else np.float32)


def _filled(values: Array, instruction: Any, operands: OperandValues) -> Array:
    return np.broadcast_to(values, (instruction.target.partitions, operands.count))


def _copy(
    _: Copy | CopyDynamicSrc | CopyDynamicDst | LocalGather, operands: OperandValues
) -> Array:
    return operands.elements[0]


def _memset(memset: Memset, operands: OperandValues) -> Array:
    return _filled(constant(memset.value), memset, operands)


def _activate(activate: Activate | ActivateReduce, operands: OperandValues) -> Array:
    bias = operands.per_lane[0] if operands.per_lane else constant(activate.bias)  # type: ignore[arg-type]
    scaled = operands.elements[0].astype(np.float32) * np.float32(activate.scale)
    return apply(activate.function, scaled + bias.astype(np.float32))


def _pool(pool: Pool, operands: OperandValues) -> Array:
    values = _plain(operands.elements[0])
    windows = values.reshape(len(values), operands.count, pool.window)
    return REDUCTIONS[pool.function](windows)


def _tensor_tensor(both: TensorTensor, operands: OperandValues) -> Array:
    left, right = operands.elements
    return operate(both.op, _plain(left), _plain(right))


def _scalar_tensor_tensor(three: ScalarTensorTensor, operands: OperandValues) -> Array:
    source, tensor = map(_plain, operands.elements)
    values = _with_scalar(three, source, operands)
    left, right = (tensor, values) if three.then_reverse else (values, tensor)
    return operate(three.then, left, right)


def _with_scalar(
    one: ScalarTensorTensor | TensorScalarReduce, source: Array, operands: OperandValues
) -> Array:
    """Return source op scalar."""
    scalar = _plain(operands.per_lane[0]) if operands.per_lane else constant(one.scalar)  # type: ignore[arg-type]
    left, right = (scalar, source) if one.reverse else (source, scalar)
    return operate(one.op, left, right)


def _tensor_scalar_reduce(one: TensorScalarReduce, operands: OperandValues) -> Array:
    return _with_scalar(one, _plain(operands.elements[0]), operands)


def _tensor_scalar(one: TensorScalar, operands: OperandValues) -> Array:
    per_lane = iter(operands.per_lane)
    stages = [(one.op, one.scalar, one.reverse)]
    if one.then is not None:
        stages.append((one.then, one.other, one.then_reverse))
    values = _plain(operands.elements[0])
    for op, scalar, reverse in stages:
        second = _plain(next(per_lane)) if isinstance(scalar, Access) else constant(scalar)
        values = operate(op, second, values) if reverse else operate(op, values, second)
    return values


def _transpose(turned: Transpose, operands: OperandValues) -> Array:
    (values,) = operands.elements
    side = turned.side
    blocks = values.reshape(len(values) // side, side, operands.count // side, side)
    return blocks.transpose(0, 3, 2, 1).reshape(values.shape)


def _shuffle(shuffle: Shuffle, operands: OperandValues) -> Array:
    (values,), mask = operands.elements, np.array(shuffle.mask)
    groups = np.arange(0, len(values), len(mask))[:, None]
    moved = mask != UNCHANGED
    found = cast(values[(groups + np.where(moved, mask, 0)).ravel()], shuffle.target.dtype)
    if operands.kept is None:
        return found
    return np.where(np.tile(moved, len(groups))[:, None], found, operands.kept)


def _scan(scan: Scan, operands: OperandValues) -> Array:
    left, right = map(_plain, operands.elements)
    start = operands.per_lane[0] if operands.per_lane else constant(scan.initial)  # type: ignore[arg-type]
    before = np.broadcast_to(_plain(start), (len(left), 1))
    found = []
    for place in range(operands.count):
        here = slice(place, place + 1)
        before = operate(scan.then, operate(scan.op, left[:, here], before), right[:, here])
        found.append(before)
    return np.concatenate(found, axis=1)


def _copy_predicated(copy: CopyPredicated, operands: OperandValues) -> Array:
    source, predicate = operands.elements
    assert operands.kept is not None
    return np.where(_plain(predicate) != 0, cast(source, copy.target.dtype), operands.kept)


def _select_reduce(select: SelectReduce, operands: OperandValues) -> Array:
    source, predicate = map(_plain, operands.elements)
    other = operands.per_lane[0] if operands.per_lane else constant(select.other)  # type: ignore[arg-type]
    return _either((predicate != 0) != select.reverse, source, _plain(other))


def _range_select(select: RangeSelect, operands: OperandValues) -> Array:
    per_lane = iter(operands.per_lane)
    bounds = [
        _plain(next(per_lane) if isinstance(bound, Access) else constant(bound))
        for bound in (select.bound, select.end)
    ]
    place = select.base + operands.first + np.arange(operands.count, dtype=np.int64)[None, :]
    here = place.astype(np.int32)
    holds = [
        operate(compare, here, bound) != 0
        for compare, bound in zip((select.compare, select.compare_end), bounds, strict=True)
    ]
    source = _plain(operands.elements[0])
    return _either(holds[0] & holds[1], source, constant(select.other))


def _either(holds: Array, one: Array, other: Array) -> Array:
    """Return the one where it holds, else the other: int32 if both are, else float32."""
    if one.dtype != other.dtype:
        one, other = one.astype(np.float32), other.astype(np.float32)
    return np.where(holds, one, other)


def _bn_stats(_: BnStats, operands: OperandValues) -> Array:
    values = operands.elements[0].astype(np.float32)
    return np.concatenate([_moments(values[:, parity::2]) for parity in (0, 1)], axis=1)


def _moments(values: Array) -> Array:
    """Return count, mean and count * variance of each lane; three 0 of no elements."""
    lanes, count = values.shape
    if count == 0:
        return np.zeros((lanes, 3), np.float32)
    mean = (REDUCTIONS["sum"](values) / np.float32(count))[:, None]
    away = values - mean
    squares = REDUCTIONS["sum"](away * away)[:, None]
    return np.concatenate([np.full_like(mean, count), mean, squares], axis=1)


def _bn_aggr(_: BnAggr, operands: OperandValues) -> Array:
    values = operands.elements[0].astype(np.float32)
    count, mean, squares = (values[:, place::3] for place in range(3))
    total = REDUCTIONS["sum"](count)[:, None]
    middle = REDUCTIONS["sum"](count * mean)[:, None] / total
    away = mean - middle
    spread = REDUCTIONS["sum"](squares + count * (away * away))[:, None] / total
    return np.concatenate([middle, spread], axis=1)


def _max8(_: Max8, operands: OperandValues) -> Array:
    values = _plain(operands.elements[0])
    is_number = values == values
    order = np.lexsort((-values.astype(np.float64), is_number), axis=-1)
    return np.take_along_axis(values, order[:, :8], axis=-1)


def _topk(top: TopK, operands: OperandValues) -> Array:
    found, numbered = _largest(top, operands.elements[0]), _snake(top, operands.elements[0])
    nothing = cast(constant(-np.inf), top.target.dtype)
    return _unsnaked(top, np.where(found >= 0, np.take_along_axis(numbered, found, 1), nothing))


def _topk_indices(top: TopK, operands: OperandValues, _: Array) -> tuple[Array, ...]:
    return (_unsnaked(top, _largest(top, operands.elements[0])),)


def _snake(top: TopK, values: Array) -> Array:
    """Return the elements of each group in their order, [groups, elements]."""
    lanes, elements = values.shape
    groups = values.reshape(lanes // top.group, top.group, elements).transpose(0, 2, 1)
    return groups.reshape(lanes // top.group, -1)


def _unsnaked(top: TopK, numbered: Array) -> Array:
    """Return what lies in the order of a group in its partitions, [lanes, elements]."""
    groups = numbered.reshape(len(numbered), -1, top.group).transpose(0, 2, 1)
    return groups.reshape(len(numbered) * top.group, -1)


def _largest(top: TopK, values: Array) -> Array:
    """Return [groups, places], int32: the numbers of the k largest, then -1 for other places."""
    numbered = _snake(top, values)[:, : top.count].astype(np.float64)
    order = np.lexsort((-numbered, numbered == numbered), axis=-1)[:, : top.k]
    found = np.full((len(order), top.target.elements * top.group), -1, np.int32)
    found[:, : top.k] = order
    return found


def _find_index8(_: FindIndex8, operands: OperandValues) -> Array:
    return _first_equals(operands, range(8))


def _match_replace8(search: MatchReplace8, operands: OperandValues) -> Array:
    (source,), dtype = operands.elements, search.target.dtype
    at = _first_equals(operands, range(7, -1, -1))
    lanes, values = np.nonzero(at >= 0)
    found = cast(source, dtype).copy()
    found[lanes, at[lanes, values]] = cast(constant(search.other), dtype)
    return found


def _first_equals(operands: OperandValues, order: Iterable[int]) -> Array:
    """Return [lanes, 8], int32: the first element that equals each value; -1 where none does.

    The values are gone through in that order, and an element is given to one of them only.
    """
    (source,), (values,) = operands.elements, operands.per_lane
    source, values = _plain(source), _plain(values)
    if source.dtype != values.dtype:
        source, values = source.astype(np.float32), values.astype(np.float32)
    lane = np.arange(len(source))
    is_free = np.ones(source.shape, np.bool_)
    at = np.empty(values.shape, np.int32)
    for place in order:
        equals = (source == values[:, place : place + 1]) & is_free
        first = equals.argmax(axis=1)
        is_found = equals[lane, first]
        is_free[lane, first] &= ~is_found
        at[:, place] = np.where(is_found, first, -1)
    return at


def _dropout(dropout: Dropout, operands: OperandValues) -> Array:
    (values,), target = operands.elements, dropout.target
    given = operands.per_lane[0] if operands.per_lane else constant(dropout.probability)  # type: ignore[arg-type]
    drawn = uniform(dropout.seed, len(values), operands.first, operands.count)
    nothing = cast(np.zeros(1, np.float32), target.dtype)
    return np.where(drawn < given.astype(np.float32), nothing, cast(values, target.dtype))


def _partition_reduce(over: PartitionReduce, operands: OperandValues) -> Array:
    return _fold(over.fold, _plain(operands.elements[0]).T).T


def _fold(name: Fold, values: Array) -> Array:
    """Return [lanes, 1], the fold of each lane in the order of its elements."""
    return REDUCTIONS[name](values)[:, None]


def _requantise(one: Requantise, operands: OperandValues) -> Array:
    """Return whole float64 numbers, which the cast to an integer type keeps or saturates."""
    per_lane = iter(operands.per_lane)
    bias, scale = (
        _plain(next(per_lane)) if isinstance(number, Access) else constant(number)
        for number in (one.bias, one.scale)
    )
    summed = operate("add", _plain(operands.elements[0]), bias)
    scaled = summed.astype(np.float32) * scale.astype(np.float32)
    whole = np.nan_to_num(np.rint(scaled).astype(np.float64), nan=0.0)
    return np.clip(whole, one.lowest, one.highest)


def _scales(quantize: QuantizeMx, operands: OperandValues) -> Array:
    return scales_for(operands.elements[0], quantize.target.dtype, quantize.headroom)


def _quantize_mx(quantize: QuantizeMx, operands: OperandValues) -> Array:
    return quantised(operands.elements[0], _scales(quantize, operands), quantize.target.dtype)


def _affine(instruction: Iota | Select, operands: OperandValues) -> Array:
    """Return base + per_partition * lane + per_element * element, int64."""
    lane = np.arange(instruction.target.partitions, dtype=np.int64)[:, None]
    element = operands.first + np.arange(operands.count, dtype=np.int64)[None, :]
    steps = instruction.per_partition * lane + instruction.per_element * element
    affine: Array = instruction.base + steps
    return affine


def _iota(iota: Iota, operands: OperandValues) -> Array:
    return _affine(iota, operands).astype(np.int32)


def _select(select: Select, operands: OperandValues) -> Array:
    holds = COMPARISONS[select.compare](_affine(select, operands), 0)
    value = operands.elements[0] if operands.elements else constant(select.value)  # type: ignore[arg-type]
    dtype = select.target.dtype
    return np.where(holds, cast(value, dtype), cast(constant(select.other), dtype))


_COMPUTE: dict[type, Callable[[Any, OperandValues], Array]] = {
    Copy: _copy,
    CopyDynamicSrc: _copy,
    CopyDynamicDst: _copy,
    LocalGather: _copy,
    TopK: _topk,
    Memset: _memset,
    Activate: _activate,
    Pool: _pool,
    TensorTensor: _tensor_tensor,
    TensorScalar: _tensor_scalar,
    ActivateReduce: _activate,
    TensorScalarReduce: _tensor_scalar_reduce,
    ScalarTensorTensor: _scalar_tensor_tensor,
    Transpose: _transpose,
    Shuffle: _shuffle,
    Scan: _scan,
    CopyPredicated: _copy_predicated,
    SelectReduce: _select_reduce,
    RangeSelect: _range_select,
    BnStats: _bn_stats,
    BnAggr: _bn_aggr,
    Max8: _max8,
    FindIndex8: _find_index8,
    MatchReplace8: _match_replace8,
    PartitionReduce: _partition_reduce,
    Dropout: _dropout,
    Iota: _iota,
    Select: _select,
    Requantise: _requantise,
    QuantizeMx: _quantize_mx,
}
require_rows("values.lanes._COMPUTE", _COMPUTE, engine_instructions())


def _sum(_: ActivateReduce, __: OperandValues, values: Array) -> tuple[Array, ...]:
    return (_fold("sum", values),)


def _folded(
    one: TensorScalarReduce | SelectReduce | RangeSelect, _: OperandValues, values: Array
) -> tuple[Array, ...]:
    return (_fold(one.fold, values),)


def _indices(_: MatchReplace8, operands: OperandValues, __: Array) -> tuple[Array, ...]:
    return (_first_equals(operands, range(7, -1, -1)),)


_RESULTS: dict[type, Callable[[Any, OperandValues, Array], tuple[Array, ...]]] = {
    ActivateReduce: _sum,
    TensorScalarReduce: _folded,
    SelectReduce: _folded,
    RangeSelect: _folded,
    MatchReplace8: _indices,
    TopK: _topk_indices,
}
"""What is written once per lane, from what was read and all results [lanes, elements] before their
cast."""
require_rows(
    "values.lanes._RESULTS",
    _RESULTS,
    [cls for cls in engine_instructions() if BY_CLASS[cls].operands.results],
)
