"""The least time of a transpose, a relayout or a reshape: the choice of the closed form.

Only the graph counts. It gives the memory of a tensor that no other operation uses. It does not say
where an intermediate tensor lies, so that tensor is taken to lie where the next operation wants it.
The forms are in `systolic.hw.formulas.moves` and `systolic.hw.formulas.timing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from systolic.compiler.bounds.channels import uneven_bounds
from systolic.compiler.bounds.common_runs import common_runs
from systolic.compiler.bounds.gaps import gapped_bytes
from systolic.compiler.bounds.neighbours import parted_lines
from systolic.compiler.bounds.own_writes import moves_alone
from systolic.compiler.bounds.sequencing import of_transpose, queue_bound
from systolic.compiler.cost.engine_turns import may_turn
from systolic.compiler.cost.engines import drain_engine
from systolic.compiler.ir.carried import carrier_shape, is_packed, memory_bytes
from systolic.compiler.ir.chip_places import places_of
from systolic.compiler.lower.blocks import blocks_of, goes_in_blocks
from systolic.compiler.lower.chip_moves import may_stay_in_lanes
from systolic.compiler.lower.permute import both_at
from systolic.compiler.lower.recognise import (
    MatrixSet,
    moves_nothing,
    moves_only_ones,
    recognise_rows,
    recognise_transpose,
)
from systolic.compiler.lower.reshape import shared_home
from systolic.compiler.lower.same_places import lies_alike
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.moves import (
    bounce_bound,
    copied_bound,
    gapped_bound,
    passed_bound,
)
from systolic.hw.formulas.parts import parted_bound, shared_bound
from systolic.hw.formulas.timing import Bound, dram_bound, largest, transpose_bound
from systolic.hw.spec import Chip
from systolic.hw.units import EngineName
from systolic.layout import Decomposition, Shape, decompose
from systolic.workload import Graph, Operation, TransposeAttributes
from systolic.workload.options import Options

NOTHING = Bound(0, "nothing need be busy")


@dataclass(frozen=True, slots=True)
class ThroughArray:
    """Identity products of K x N tiles whose results one engine copies out.

    dram_bytes: of the source in DRAM, and of the result there (0: both on the chip). whole: the
    tiles are those of every schedule.
    """

    tiles: Sequence[tuple[int, int]]
    dtype: str
    unit: EngineName
    dram_bytes: int
    whole: bool

    def bound(self, chip: Chip) -> Bound:
        """Return what array, engine and DRAM take, the first instruction being there."""
        found = transpose_bound(
            chip, self.tiles, self.dtype, self.unit, self.dram_bytes, whole=self.whole
        )
        return largest([dram_bound(chip, 2 * self.dram_bytes), found]) if self.dram_bytes else found

    def queues(self, chip: Chip) -> Bound:
        """Return what the queues take for its instructions, their fetch included."""
        work = of_transpose(chip, self.tiles, whole=self.whole)
        return queue_bound(chip, [work], 2 if self.dram_bytes else 0)


def move_bound(graph: Graph, op: Operation, chip: Chip, options: Options) -> Bound:
    """Return the bound of one operation alone."""
    way = _way(graph, op, chip, options)
    found = way if isinstance(way, Bound) else way.bound(chip)
    return largest([found, *_written(graph, op, chip, options)])


def move_queues(graph: Graph, op: Operation, chip: Chip, options: Options) -> Bound:
    """Return the least time of queues for the instructions of one operation alone, where known."""
    way = _way(graph, op, chip, options)
    return NOTHING if isinstance(way, Bound) else way.queues(chip)


def _way(graph: Graph, op: Operation, chip: Chip, options: Options) -> Bound | ThroughArray:
    """Return how an operation alone goes: through the array, or a bound of another way."""
    ends = (op.inputs[0] in graph.inputs, op.output in graph.outputs)
    homes = {graph.tensor(name).home for name in (op.inputs[0], op.output)}
    moved = _dram_bytes(graph, op)
    if not all(ends) or homes == {"dram", "state_buffer"}:
        return dram_bound(chip, moved) if moved else NOTHING
    if homes == {"dram"}:
        least = [dram_bound(chip, moved, moved // 2), _gapped(graph, op, chip)]
        source, result, _ = _shapes(graph, op)
        least += [*_passed(graph, op, chip), *uneven_bounds(chip, [source], [result])]
        return _from_dram(graph, op, chip, options, largest(least))
    return _on_chip(graph, op, chip, options)


def _gapped(graph: Graph, op: Operation, chip: Chip) -> Bound:
    """Return what the gaps of source and result in DRAM cost."""
    both = [
        gapped_bytes(graph.shape(op.inputs[0]), stored=False),
        gapped_bytes(graph.shape(op.output), stored=True),
    ]
    ends = [gapped for gapped in both if gapped is not None]
    others = _dram_bytes(graph, op) - sum(end.size_bytes for end in ends)
    return gapped_bound(chip, ends, others) if ends else NOTHING


def _passed(graph: Graph, op: Operation, chip: Chip) -> Iterator[Bound]:
    """Yield what DMA engines pass, if they pass fewer bytes in a cycle than DRAM does."""
    source, result, axes = _shapes(graph, op)
    engines = chip.dma.engine_count * chip.dma.bytes_per_cycle
    slow = chip.dram.organisation is None and engines < chip.dram.bytes_per_cycle
    if not slow or is_packed(source) or is_packed(result):
        return
    runs = common_runs(carrier_shape(source), carrier_shape(result), axes)
    if runs is not None:
        yield passed_bound(chip, runs)


def _written(graph: Graph, op: Operation, chip: Chip, options: Options) -> Iterator[Bound]:
    """Yield bounds of what must be written to take neighbours apart, both ends in one memory.

    If only the tiles are others, no element need move: the compiler may leave the result where the
    source is, since it chooses how far apart the rows of a tensor without tiles lie.
    """
    source, result, axes = _shapes(graph, op)
    homes = [graph.tensor(name).home for name in (op.inputs[0], op.output)]
    ends = op.inputs[0] in graph.inputs and op.output in graph.outputs
    packed = is_packed(source) or is_packed(result)
    chosen = homes[1] == "state_buffer" and (options.block or options.tile_columns)
    if packed or chosen or not ends or homes[0] != homes[1] or _stays(graph, op, chip, options):
        return
    before, after = carrier_shape(source), carrier_shape(result)
    outside = homes[1] == "dram"
    alone = not outside and moves_alone(before, after, axes, chip)
    size_bytes = data_type(after.element_type).size_bytes
    for lines in parted_lines(before, after, axes, chip, outside=outside):
        yield parted_bound(chip, lines, outside=outside)
        if alone and size_bytes == lines.unit_bytes:
            yield from shared_bound(chip, lines, after.num_elements())
    if alone:
        yield copied_bound(chip, after.num_elements(), size_bytes, alone=True)  # in any lane


def _from_dram(
    graph: Graph, op: Operation, chip: Chip, options: Options, least: Bound
) -> Bound | ThroughArray:
    """Return the bound of an operation from DRAM to DRAM: `least`, or the array's if it turns."""
    source, result, axes = _shapes(graph, op)
    if axes is None or both_at(graph, op) is None or is_packed(source) or is_packed(result):
        return least
    source, result = carrier_shape(source), carrier_shape(result)
    if moves_nothing(source, result, axes) or recognise_rows(source, result, axes):
        return least
    matrices = recognise_transpose(source, result, axes)
    if options.via == "pe":
        return _by_array(matrices, chip, options, "dram")
    return least  # a DMA that transposes on the way


def _on_chip(graph: Graph, op: Operation, chip: Chip, options: Options) -> Bound | ThroughArray:
    """Return the bound of an operation whose tensors live on the chip before and after."""
    source, result, axes = _shapes(graph, op)
    if axes is None:
        stays = shared_home(source, result) is not None
    else:
        stays = moves_nothing(source, result, axes)
    stays = stays or _stays(graph, op, chip, options)
    if is_packed(source) != is_packed(result):
        return _calculated(source, result, chip)
    if stays or (
        axes is not None and both_at(graph, op) is None and moves_only_ones(source, result, axes)
    ):
        return NOTHING
    if is_packed(source):
        return copied_bound(chip, max(memory_bytes(source), memory_bytes(result)), 1)
    source, result = carrier_shape(source), carrier_shape(result)
    size_bytes = data_type(source.element_type).size_bytes
    alone = axes is not None and both_at(graph, op) is not None
    ends = (
        replace(graph.tensor(op.inputs[0]), shape=source),
        replace(graph.tensor(op.output), shape=result),
    )
    ports = _ports_of(result, chip) if ends[1].home == "state_buffer" else None
    copied = copied_bound(chip, source.num_elements(), size_bytes, ports=ports)
    if axes is None or not (alone and goes_in_blocks(*ends, axes, chip, options)):
        return copied
    tiled = any(end.shape.layout.tiles for end in ends)  # then digits and words may go as well
    if tiled or may_stay_in_lanes(*ends, options):  # in any blocks, or lane by lane
        return copied
    matrices = recognise_transpose(source, result, axes)
    if options.via == "dram":
        blocks = [block.extents for block in blocks_of(matrices, chip, options)]
        return bounce_bound(chip, blocks, size_bytes)
    if may_turn(chip, options, *matrices.dims[-2:]):
        return copied
    return _by_array(matrices, chip, options, "state_buffer")


def _stays(graph: Graph, op: Operation, chip: Chip, options: Options) -> bool:
    """Return whether a result on the chip may lie where its source is."""
    source, result, axes = _shapes(graph, op)
    packed = is_packed(source) or is_packed(result)
    if packed or both_at(graph, op) != "state_buffer":
        return False
    ends = (
        replace(graph.tensor(op.inputs[0]), shape=carrier_shape(source)),
        replace(graph.tensor(op.output), shape=carrier_shape(result)),
    )
    return lies_alike(ends, axes, chip, options) is not None


def _ports_of(shape: Shape, chip: Chip) -> int | None:
    """Return the ports through which a tensor in tiles is written; None: any may do.

    Of each of its partitions those of as many banks as its places there may lie in, wherever they
    begin.
    """
    if not shape.layout.tiles:
        return None
    places = places_of(shape, chip.state_buffer.partitions)
    if places is None:
        return None
    size_bytes = places.columns * data_type(shape.element_type).size_bytes
    banks = 1 + -(-(size_bytes - 1) // chip.state_buffer.bank_bytes)
    return places.rows * min(banks, chip.state_buffer.banks)


def _calculated(source: Shape, result: Shape, chip: Chip) -> Bound:
    """Return what it takes to part elements that share bytes, or to put them into one.

    A byte of the result that has several elements in its packed form is in the source nowhere. In
    each line only the last byte may hold one element: of n elements one at most, of the bytes of a
    line of two elements or more every second at most.
    """
    packed = source if is_packed(source) else result
    line = min((packed.dims[axis] for axis in packed.layout.minor_to_major[:2]), default=1)
    every = max(1, line if packed is source else min(line, 2))
    size_bytes = memory_bytes(result) * (every - 1) // every
    return copied_bound(chip, size_bytes, 1, calculated=True)


def _shapes(graph: Graph, op: Operation) -> tuple[Shape, Shape, tuple[int, ...] | None]:
    """Return source, result, and the permutation (None: a reshape)."""
    source, result = graph.shape(op.inputs[0]), graph.shape(op.output)
    if op.kind == "reshape":
        return source, result, None
    if op.kind == "relayout":
        return source, result, tuple(range(source.rank))
    return source, result, op.attributes_as(TransposeAttributes).axes


def _dram_bytes(graph: Graph, op: Operation) -> int:
    """Return the bytes of those tensors of an operation that must come from DRAM or go there."""
    ends = [name for name in op.inputs if name in graph.inputs]
    ends += [op.output] if op.output in graph.outputs else []
    shapes = [graph.shape(name) for name in ends if graph.tensor(name).home == "dram"]
    return sum(map(memory_bytes, shapes))


def _by_array(matrices: MatrixSet, chip: Chip, options: Options, home: str) -> ThroughArray:
    """Return the identity products of all sub-blocks."""
    dtype = matrices.element_type
    tiles = _sub_blocks(_cut(matrices, chip, options, home))
    size = matrices.shape.num_elements() * data_type(dtype).size_bytes
    moved = size if home == "dram" else 0
    whole = home == "state_buffer" or options.block is not None
    return ThroughArray(tiles, dtype, drain_engine(chip, options), moved, whole)


def _cut(matrices: MatrixSet, chip: Chip, options: Options, home: str) -> Decomposition:
    """Return the blocks of equation 1; as few as possible from DRAM, if options name none."""
    if home == "dram" and options.block is None:
        array = chip.pe_array.rows, chip.pe_array.cols
        return decompose(matrices.shape, array, array)
    return blocks_of(matrices, chip, options)


def _sub_blocks(blocks: Decomposition) -> Sequence[tuple[int, int]]:
    return [sub.extents for block in blocks for sub in blocks.sub_blocks(block)]
