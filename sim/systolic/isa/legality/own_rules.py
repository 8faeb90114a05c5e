"""What single instructions of engines must be, beyond engine, accesses, shapes and numbers.

`OWN_RULES` has a row for each instruction with such rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from systolic.errors import ProgramError
from systolic.hw.datatypes import data_type
from systolic.isa.access import Access
from systolic.isa.instruction import (
    BnAggr,
    FindIndex8,
    LocalGather,
    MatchReplace8,
    Max8,
    QuantizeMx,
    Requantise,
    ScalarTensorTensor,
    Scan,
    Shuffle,
    TensorScalar,
    TensorScalarReduce,
    TensorTensor,
    TopK,
    Transpose,
)
from systolic.isa.instruction.on_engine import UNCHANGED
from systolic.isa.legality.scales import check_quantize_mx

MAX_SEARCHED = 1 << 14
"""The most elements of a lane in which `find_index8` and `match_replace8` search (nki.isa)."""
GATHERED, MAX_GATHERED = (1, 2, 4, 8, 16, 32), 1 << 12
"""How many elements an index of `local_gather` gives, and the most indices of a group (nki.isa)."""
TOPK_COUNTS, MAX_K = range(8, 1 << 16), (1 << 15) - 1
"""Of how many elements `topk` finds the largest, and the most that it finds (nki.isa)."""
INTEGERS_ONLY = (
    "and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic",
)  # fmt: skip


def _check_transpose(turned: Transpose) -> None:
    lanes, elements, side = turned.source.partitions, turned.source.elements, turned.side
    if side < 1 or lanes % side or elements % side:
        raise ProgramError(
            f"side: needed blocks of side x side elements that fill {lanes} x {elements}, "
            f"found {side}"
        )


def _check_shuffle(shuffle: Shuffle) -> None:
    lanes, mask = shuffle.source.partitions, shuffle.mask
    if not mask or lanes % len(mask):
        raise ProgramError(
            f"mask: needed so many entries that groups of them fill {lanes} partitions, "
            f"found {len(mask)}"
        )
    for entry in mask:
        if entry != UNCHANGED and not 0 <= entry < len(mask):
            raise ProgramError(
                f"mask: an entry is 0 to {len(mask) - 1}, or {UNCHANGED} for a lane that keeps "
                f"what it has, found {entry}"
            )


def _check_scan(scan: Scan) -> None:
    integers = _check_operation("op", scan.op, {"left": scan.left, "initial": scan.initial})
    first = 0 if integers else 0.0
    made = _check_operation(
        "then", scan.then, {f"the result of {scan.op}": first, "right": scan.right}
    )
    if integers and not made:  # from the second element on, the earlier result is no integer
        _check_operation("op", scan.op, {"left": scan.left, f"the result of {scan.then}": 0.0})


def _check_bn_aggr(both: BnAggr) -> None:
    if both.source.elements % 3:
        raise ProgramError(
            "source: needed (count, mean, count * variance) again and again, a multiple of 3 "
            f"elements, found {both.source.elements}"
        )


def _check_max8(largest: Max8) -> None:
    if largest.source.elements < largest.target.elements:
        raise ProgramError(
            f"source: needed at least {largest.target.elements} elements, "
            f"found {largest.source.elements}"
        )


def _check_find_index8(search: FindIndex8) -> None:
    _check_searched(search.source, search.target.elements)
    _check_indices("target", search.target)


def _check_match_replace8(search: MatchReplace8) -> None:
    _check_searched(search.source, 1)
    if search.indices is not None:
        _check_indices("indices", search.indices)


def _check_searched(source: Access, least: int) -> None:
    if not least <= source.elements <= MAX_SEARCHED:
        raise ProgramError(
            f"source: needed {least} to {MAX_SEARCHED} elements in each partition, "
            f"found {source.elements}"
        )


def _check_indices(name: str, access: Access) -> None:
    if access.dtype != "s32":
        raise ProgramError(f"{name}: where an element is, is an s32, found {access.dtype}")


def _check_local_gather(gather: LocalGather) -> None:
    source, index, target, group = gather.source, gather.index, gather.target, gather.group
    if gather.each not in GATHERED:
        raise ProgramError(
            f"each: an index gives {', '.join(map(str, GATHERED))} elements, found {gather.each}"
        )
    _check_groups(source, group)
    if target.partitions != source.partitions or target.dtype != source.dtype:
        raise ProgramError(
            f"target: needed {source.partitions} partitions of {source.dtype}, as the source has, "
            f"found {target.partitions} of {target.dtype}"
        )
    found, rest = divmod(target.elements, gather.each)
    if rest or found > MAX_GATHERED:
        raise ProgramError(
            f"target: needed {gather.each} elements for each of 1 to {MAX_GATHERED} indices, "
            f"found {target.elements}"
        )
    if source.elements < gather.each:
        raise ProgramError(
            f"source: needed at least the {gather.each} elements of an index, "
            f"found {source.elements}"
        )
    _check_index(index, source, -(-found // group))


def _check_topk(top: TopK) -> None:
    source, group = top.source, top.group
    _check_groups(source, group)
    if not TOPK_COUNTS[0] <= top.count <= TOPK_COUNTS[-1]:
        raise ProgramError(
            f"count: needed {TOPK_COUNTS[0]} to {TOPK_COUNTS[-1]} elements of a group, "
            f"found {top.count}"
        )
    most = min(MAX_K, top.count)
    if not 1 <= top.k <= most:
        raise ProgramError(f"k: needed 1 to {most} results of {top.count}, found {top.k}")
    for name, access, number, dtype in (
        ("source", source, top.count, "bf16"),
        ("target", top.target, top.k, "bf16"),
        ("indices", top.indices, top.k, "s32"),
    ):
        each = -(-number // group)
        if (access.partitions, access.elements, access.dtype) != (source.partitions, each, dtype):
            raise ProgramError(
                f"{name}: needed {source.partitions} x {each} elements of {dtype}, "
                f"found {access.partitions} x {access.elements} of {access.dtype}"
            )
    if top.indices.buffer is not top.target.buffer:
        raise ProgramError(
            f"indices: must lie in the target's buffer, {top.target.buffer}, "
            f"found {top.indices.buffer}"
        )


def _check_groups(source: Access, group: int) -> None:
    if group < 1 or source.partitions % group or source.partition % group:
        raise ProgramError(
            f"group: needed groups of partitions that begin at a multiple of their size and fill "
            f"{source.partition} to {source.lanes.stop - 1}, found {group}"
        )


def _check_index(index: Access, source: Access, elements: int) -> None:
    """Hold the indices of a gather against the partitions that they are for."""
    _check_indices("index", index)
    if (index.lanes, index.elements) != (source.lanes, elements):
        raise ProgramError(
            f"index: needed {elements} elements in each of the source's partitions, "
            f"{source.partition} to {source.lanes.stop - 1}, found {index.elements} in "
            f"{index.partition} to {index.lanes.stop - 1}"
        )


def _check_tensor_tensor(both: TensorTensor) -> None:
    _check_operation("op", both.op, {"left": both.left, "right": both.right})


def _check_tensor_scalar(one: TensorScalar) -> None:
    integers = _check_operation("op", one.op, {"source": one.source, "scalar": one.scalar})
    if one.then is None:
        if one.other != 0 or one.then_reverse:
            raise ProgramError("other and then_reverse mean nothing without then")
        return
    first = 0 if integers else 0.0
    _check_operation("then", one.then, {f"the result of {one.op}": first, "other": one.other})


def _check_tensor_scalar_reduce(one: TensorScalarReduce) -> None:
    _check_operation("op", one.op, {"source": one.source, "scalar": one.scalar})


def _check_scalar_tensor_tensor(three: ScalarTensorTensor) -> None:
    integers = _check_operation("op", three.op, {"source": three.source, "scalar": three.scalar})
    first = 0 if integers else 0.0
    _check_operation(
        "then", three.then, {f"the result of {three.op}": first, "tensor": three.tensor}
    )


def _check_operation(name: str, op: str, operands: dict[str, Access | float]) -> bool:
    """Return whether the result is an integer; refuse the bits of floating-point numbers."""
    floating = [what for what, operand in operands.items() if not _is_integer(operand)]
    if floating and op in INTEGERS_ONLY:
        raise ProgramError(f"{name}: {op} takes integers, but {floating[0]} is floating-point")
    return not floating and op != "power"


def _is_integer(operand: Access | float) -> bool:
    if isinstance(operand, Access):
        return data_type(operand.dtype).accumulator == "s32"
    return isinstance(operand, int)


def _check_requantise(one: Requantise) -> None:
    if not _is_integer(one.target):
        raise ProgramError(f"target: requantise gives integers, found {one.target.dtype}")
    if isinstance(one.scale, Access) and _is_integer(one.scale):
        raise ProgramError(f"scale: needs floating-point numbers, found {one.scale.dtype}")
    if one.lowest > one.highest:
        raise ProgramError(f"lowest is {one.lowest}, but highest is {one.highest}")


OWN_RULES: dict[type, Callable[[Any], None]] = {
    TensorTensor: _check_tensor_tensor,
    TensorScalar: _check_tensor_scalar,
    TensorScalarReduce: _check_tensor_scalar_reduce,
    ScalarTensorTensor: _check_scalar_tensor_tensor,
    Transpose: _check_transpose,
    Shuffle: _check_shuffle,
    Scan: _check_scan,
    BnAggr: _check_bn_aggr,
    Max8: _check_max8,
    FindIndex8: _check_find_index8,
    LocalGather: _check_local_gather,
    TopK: _check_topk,
    MatchReplace8: _check_match_replace8,
    Requantise: _check_requantise,
    QuantizeMx: check_quantize_mx,
}
"""The further rules of some instructions, beyond engine, accesses, shapes and numbers."""
