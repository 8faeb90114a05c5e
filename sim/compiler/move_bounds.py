"""The least a transpose, a relayout or a reshape can take: which closed form holds for it.

Only what the graph says counts: where a tensor lives that nobody else takes or makes is known,
where an intermediate one lies is not, so it may lie as the next operation likes. The forms
themselves are in `sim.hw.bounds` and `sim.hw.timing`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.compiler.options import Options
from sim.compiler.permute import blocks_of, both_at
from sim.compiler.recognise import MatrixSet, moves_nothing, recognise_rows, recognise_transpose
from sim.hw.bounds import bounce_bound
from sim.hw.datatypes import data_type
from sim.hw.spec import Chip
from sim.hw.timing import Bound, dram_bound, transpose_bound
from sim.layout import Decomposition, decompose
from sim.workload import Graph, Operation

MOVES = ("transpose", "relayout", "reshape")
NOTHING = Bound(0, "nothing need be busy")


def move_bound(graph: Graph, op: Operation, chip: Chip, options: Options) -> Bound:
    """Return the bound of one operation alone."""
    source, home = graph.shape(op.inputs[0]), both_at(graph, op)
    moved = _dram_bytes(graph, op)
    least = dram_bound(chip, moved) if moved else NOTHING
    if home is None or op.kind == "reshape":
        return least
    result = graph.shape(op.output)
    axes = op.permutation if op.kind == "transpose" else tuple(range(source.rank))
    if moves_nothing(source, result, axes):
        return least
    if home == "dram" and recognise_rows(source, result, axes):
        return least
    return _transposed(recognise_transpose(source, result, axes), chip, options, least, home)


def _dram_bytes(graph: Graph, op: Operation) -> int:
    """Return the bytes of the ends of an operation that must come from or go to DRAM."""
    ends = [name for name in op.inputs if name in graph.inputs]
    ends += [op.output] if op.output in graph.outputs else []
    shapes = [graph.shape(name) for name in ends if graph.tensor(name).home == "dram"]
    return sum(shape.num_elements() * shape.dtype.itemsize for shape in shapes)


def _transposed(
    matrices: MatrixSet, chip: Chip, options: Options, least: Bound, home: str
) -> Bound:
    """Return the bound of the way [compile] via names, or of the better one."""
    size_bytes = data_type(matrices.element_type).size_bytes
    found: list[Bound] = []
    if options.via != "pe":
        blocks = [block.extents for block in blocks_of(matrices, chip, options)]
        found.append(least if home == "dram" else bounce_bound(chip, blocks, size_bytes))
    if options.via != "dram" and matrices.element_type in chip.pe_array.cycles_per_vector:
        tiles = _sub_blocks(_cut(matrices, chip, options, home))
        moved = matrices.shape.num_elements() * size_bytes if home == "dram" else 0
        unit = options.drain_engine
        found.append(transpose_bound(chip, tiles, matrices.element_type, unit, moved))
    return min(found, key=lambda bound: bound.cycles)


def _cut(matrices: MatrixSet, chip: Chip, options: Options, home: str) -> Decomposition:
    """Return the blocks of equation 1; from DRAM, without a choice of them, as few as possible."""
    if home == "dram" and options.block is None:
        array = chip.pe_array.rows, chip.pe_array.cols
        return decompose(matrices.shape, array, array)
    return blocks_of(matrices, chip, options)


def _sub_blocks(blocks: Decomposition) -> Sequence[tuple[int, int]]:
    return [sub.extents for block in blocks for sub in blocks.sub_blocks(block)]
