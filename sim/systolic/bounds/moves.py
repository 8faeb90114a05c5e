"""How few ticks it takes to put the elements of a tensor in other places, and to calculate them."""

from __future__ import annotations

from systolic.hw.formulas.moves import copied_bound
from systolic.hw.formulas.timing import Bound
from systolic.hw.spec import Chip
from systolic.layout.packing.memory import packed_bits
from systolic.workload import Graph, Operation
from systolic.workload.operations.activation import ActivationAttributes
from systolic.workload.operations.transpose import TransposeAttributes

NOTHING = Bound(0, "nothing need be busy")
CALCULATED = (
    "activation", "binary", "tensor_scalar", "requantise", "reduce", "pool", "softmax",
    "layer_norm", "rms_norm", "batch_norm", "instance_norm", "group_norm", "clip",
)  # fmt: skip
"""Operations whose results are no bytes of their operands, so that engines make every element."""


def moved_on_chip(graph: Graph, op: Operation, chip: Chip) -> Bound:
    """Return what lanes and queues take for a move between two places on the chip.

    The most minor dimension lies along the address of a tensor without tiles, and no other does. So
    if it is another one before and after, every element changes its place; else none need.
    """
    source, result = graph.shape(op.inputs[0]), graph.shape(op.output)
    axes = _axes(op, source.rank)
    whole = op.inputs[0] in graph.inputs and op.output in graph.outputs
    at_home = {graph.tensor(name).home for name in (op.inputs[0], op.output)} == {"state_buffer"}
    if axes is None or not axes or not (whole and at_home):
        return NOTHING
    if any(each.layout.tiles or packed_bits(each) for each in (source, result)):
        return NOTHING
    before, after = source.layout.minor_to_major[0], axes[result.layout.minor_to_major[0]]
    if before == after or min(source.dims[before], source.dims[after]) == 1:
        return NOTHING
    elements = source.num_elements()
    staying = elements // max(source.dims[before], source.dims[after])
    return copied_bound(chip, elements - staying, max(1, source.element_bits // 8))


def calculated(graph: Graph, op: Operation, chip: Chip) -> Bound:
    """Return what the lanes of engines take to write every element of a result."""
    source, result = graph.shape(op.inputs[0]), graph.shape(op.output)
    plain = isinstance(op.attributes, ActivationAttributes) and op.attributes.function == "identity"
    shrinks = op.kind in ("reduce", "pool") and source.num_elements() == result.num_elements()
    if op.kind not in CALCULATED or plain or shrinks or packed_bits(result):
        return NOTHING
    return copied_bound(
        chip, result.num_elements(), max(1, result.element_bits // 8), calculated=True
    )


def _axes(op: Operation, rank: int) -> tuple[int, ...] | None:
    """Return the permutation of a move; None of a reshape."""
    if op.kind == "relayout":
        return tuple(range(rank))
    return op.attributes_as(TransposeAttributes).axes if op.kind == "transpose" else None
