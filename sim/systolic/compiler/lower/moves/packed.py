"""Lowering of narrow types: a graph in bytes, and packed tensors unpacked before and packed after.

Work on a narrow type is work on u8 (`systolic.compiler.ir.carried`). So the operations are lowered
as operations of a graph in which every narrow tensor is of u8, and a packed one has another name
there, that of its elements. An input that is packed is unpacked first: in DRAM to a place of its
elements; on the chip lane by lane, to a matrix in which an element lies at its address in elements.
A result is packed in the same way at the end. Bits of padding keep what they were: if there are
any, the place of a result's elements begins as what its bytes hold. Not here: shifts and masks
(`schedule`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from systolic.compiler.cost.dma import queues_of_tile
from systolic.compiler.ir.carried import (
    NARROW_BITS,
    carrier_shape,
    is_packed,
)
from systolic.compiler.ir.nodes import Axes, ConvertNode, Matrix, PackNode, UnpackNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.on_chip.homes import Rows, Scattered, as_rows, in_unbroken_rows
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.dram_places import DramPlaces
from systolic.compiler.lower.engines.flat import flat_shape
from systolic.compiler.lower.moves.whole_bytes import byte_tensor, moved_as_bytes
from systolic.compiler.lower.views import physical
from systolic.element_types import BYTE_BITS
from systolic.errors import CompileError, perhaps, shortened
from systolic.hw.datatypes import COPIED_TYPES, DATA_TYPES
from systolic.hw.spec import Chip
from systolic.layout import LayoutError, Shape
from systolic.layout.packing.memory import packed_bits
from systolic.workload import Graph, Operation, Tensor
from systolic.workload.operations.binary import OPERATORS, BinaryAttributes
from systolic.workload.operations.reduce import ReduceAttributes

TAKES_NARROW = ("transpose", "relayout", "reshape", "cast")
MOVES = (*TAKES_NARROW, "slice", "concat", "take", "reverse", "tile", "expand")
"""Operations that move bytes, whatever these are."""
OF_TRUTHS = ("and", "or", "xor", "equal", "not_equal")
"""Operators that make a pred of two."""
NEXT = {"f64": "f32", "s16": "s32", "u64": "s32"}
"""What the machine has beside types that are too wide for it."""
AXES: Axes = ((0,), (1,), (2,))
"""The view of the bytes of a place in DRAM: tiles, partitions, bytes in each partition."""


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """An input or output of a graph whose elements share bytes.

    elements: the name of its elements in the graph of bytes. tensor: its shape and its home; on the
    chip the shape is in tiles.
    """

    name: str
    elements: str
    tensor: Tensor
    layer: str

    @property
    def bits(self) -> int:
        """Return the bits of an element."""
        return self.tensor.shape.element_bits

    @property
    def per_byte(self) -> int:
        """Return how many elements share a byte."""
        return BYTE_BITS // self.bits


@dataclass(frozen=True, slots=True)
class Carried:
    """A graph in bytes, and the packed inputs and outputs of the graph that it stands for.

    types: the type that each narrow tensor of it has for the user. whole: tensors that are moved
    as bytes, with their shapes for the user; on the chip these are in tiles.
    """

    graph: Graph
    types: Mapping[str, str]
    inputs: tuple[PackedTensor, ...]
    outputs: tuple[PackedTensor, ...]
    whole: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def on_chip(self) -> frozenset[str]:
        """Return the tensors of the graph whose elements are unpacked and packed on the chip."""
        ends = (*self.inputs, *self.outputs)
        return frozenset(each.elements for each in ends if each.tensor.home == "state_buffer")


def carried_graph(graph: Graph, chip: Chip) -> Carried:
    """Return the graph in bytes; the same graph if it has no narrow types.

    Raises CompileError for a type that the machine does not have, for an operation that takes no
    narrow type, and for elements of bits that their type does not fit.
    """
    for name, tensor in graph.tensors:
        _check_type(name, tensor.shape)
    for op in graph.operations:
        _check_takes(graph, op)
    narrow = {
        name: tensor for name, tensor in graph.tensors if tensor.shape.element_type in NARROW_BITS
    }
    if not narrow:
        return Carried(graph, {}, (), ())
    packed = {each.name: each for each in _packed_tensors(graph, chip)}
    moved = [name for op in moved_as_bytes(graph) for name in (*op.inputs, op.output)]
    whole = {name: packed.pop(name).tensor for name in moved}
    names = {name: each.elements for name, each in packed.items()}
    types = {names.get(name, name): tensor.shape.element_type for name, tensor in narrow.items()}
    inputs, outputs = (
        tuple(packed[name] for name in side if name in packed)
        for side in (graph.inputs, graph.outputs)
    )
    given = {name: tensor.shape for name, tensor in whole.items()}
    return Carried(_in_bytes(graph, packed, whole), types, inputs, outputs, given)


def _in_bytes(
    graph: Graph, packed: Mapping[str, PackedTensor], whole: Mapping[str, Tensor]
) -> Graph:
    """Return a graph with narrow tensors in u8; packed ones have the name of their elements.

    whole: tensors whose bytes are moved.
    """
    names = {name: packed[name].elements if name in packed else name for name, _ in graph.tensors}
    tensors = [
        (
            names[name],
            byte_tensor(whole[name]) if name in whole else _carried(tensor, packed.get(name)),
        )
        for name, tensor in graph.tensors
    ]
    operations = tuple(
        replace(op, inputs=tuple(names[name] for name in op.inputs), output=names[op.output])
        for op in graph.operations
    )
    return Graph(tuple(tensors), operations, tuple(names[name] for name in graph.named))


def _check_type(name: str, shape: Shape) -> None:
    try:
        packed_bits(shape)
    except LayoutError as error:
        raise CompileError(f"{shape}: {error}") from None
    known = (*DATA_TYPES, *COPIED_TYPES, *NARROW_BITS)
    if (kind := shape.element_type) not in known:
        near = f'; perhaps "{NEXT[kind]}" was meant' if kind in NEXT else perhaps(kind, known)
        raise CompileError(
            f'tensor "{shortened(name)}": the machine has no type {kind} (known: '
            f"{', '.join(known)}){near}"
        )


def _check_takes(graph: Graph, op: Operation) -> None:
    only_moved = NARROW_BITS.keys() | COPIED_TYPES.keys()
    for name in (*op.inputs, op.output):
        shape = graph.shape(name)
        if shape.element_type in only_moved and not _may_be_narrow(op, name, shape):
            raise CompileError(
                f'operation "{op.layer}": {op.kind} takes no {shape.element_type}; '
                f"{', '.join(TAKES_NARROW)} do, and a cast gives a type of 8 bits or more"
            )


def _may_be_narrow(op: Operation, tensor: str, shape: Shape) -> bool:
    """Return whether an operation works on the bytes in which narrow elements are carried.

    What only moves elements moves their bytes. A select asks only whether its predicate is 0. A
    comparison gives 1 or 0. Of pred, bits are the truth, and the largest and the least are "any"
    and "all".
    """
    if shape.element_type not in NARROW_BITS:
        return op.kind in TAKES_NARROW
    if op.kind in MOVES or op.kind == "select":
        return True
    if shape.element_type != "pred":
        return False
    if op.kind == "reduce":
        return op.attributes_as(ReduceAttributes).reduction in ("max", "min")
    if op.kind == "binary":
        operator = op.attributes_as(BinaryAttributes).operator
        return operator in OF_TRUTHS or (OPERATORS[operator].compares and tensor == op.output)
    return False


def _packed_tensors(graph: Graph, chip: Chip) -> Iterator[PackedTensor]:
    taken = dict(graph.tensors)
    users = {name: op for op in reversed(graph.operations) for name in (*op.inputs, op.output)}
    for name in (*graph.inputs, *graph.outputs):
        tensor = graph.tensor(name)
        if is_packed(tensor.shape):
            elements = f"{name}.elements"
            while elements in taken:
                elements += "_"
            tiled = replace(tensor, shape=_placed(tensor, chip))
            yield PackedTensor(name, elements, tiled, users[name].part_of or users[name].name)


def _placed(tensor: Tensor, chip: Chip) -> Shape:
    """Return the shape in tiles, if it lives on the chip; without tiles, in rows as any other."""
    shape = tensor.shape
    if tensor.home == "dram" or shape.layout.tiles:
        return shape
    tiled = in_unbroken_rows(carrier_shape(shape), physical(shape), block_rows(chip))
    return shape.with_layout(replace(shape.layout, tiles=tiled.layout.tiles))


def _carried(tensor: Tensor, packed: PackedTensor | None) -> Tensor:
    if packed is None:
        return replace(tensor, shape=carrier_shape(tensor.shape))
    return Tensor(carrier_shape(packed.tensor.shape), tensor.home)


def reserve_places(carried: Carried, chip: Chip) -> DramPlaces:
    """Return the places in DRAM of packed tensors, and of their elements."""
    places = DramPlaces(chip)
    for each, exact in [(p, False) for p in carried.inputs] + [(p, True) for p in carried.outputs]:
        if each.tensor.home == "dram":
            bytes_ = flat_shape(each.tensor.shape, chip, exact=exact)
            places.reserve(each.name, bytes_)
            places.reserve(_unpacked(each), _elements(bytes_, each))
            shape = carrier_shape(each.tensor.shape)
            places.alias(each.elements, _unpacked(each), shape)
    return places


def _unpacked(packed: PackedTensor) -> str:
    return f"{packed.name}.unpacked"


def _elements(bytes_: Shape, packed: PackedTensor) -> Shape:
    tiles, rows, cols = bytes_.dims
    return Shape(bytes_.element_type, (tiles, rows, cols * packed.per_byte))


# Inputs


def unpack_inputs(builder: LayerBuilder, carried: Carried) -> None:
    """Unpack every packed input."""
    for packed in carried.inputs:
        builder.begin(packed.layer)
        builder.choose(f"{packed.name} is unpacked: {packed.per_byte} elements from each byte")
        if packed.tensor.home == "dram":
            _unpack_in_dram(builder, packed, background=False)
        else:
            _unpack_on_chip(builder, packed)


def _unpack_in_dram(builder: LayerBuilder, packed: PackedTensor, *, background: bool) -> None:
    bytes_ = builder.dram.place(packed.name)
    loaded = _tiles(builder, bytes_, packed.name, packed.name)
    elements = _tiles(builder, _elements(bytes_, packed), packed.name, "")
    builder.node(UnpackNode, (loaded,), elements, packed.bits)
    builder.store_at(elements, _unpacked(packed), AXES, background=background)


def _tiles(builder: LayerBuilder, shape: Shape, tensor: str, dram: str) -> Matrix:
    tiles, rows, _ = shape.dims
    queues = queues_of_tile(builder.chip)
    shared = queues if tiles < queues else 1
    return builder.place_matrix(shape, AXES, tensor, dram=dram, shared=shared, height=rows)


def _unpack_on_chip(builder: LayerBuilder, packed: PackedTensor) -> None:
    """Unpack a tensor on the chip: tile by tile if each of its rows begins and ends with a byte.

    Otherwise the bytes of each partition are unpacked all at once, and an element then lies at its
    address in elements.
    """
    if rows := _rows(builder, packed):
        bytes_ = _bytes_in_rows(builder, packed, rows, given=True)
        elements = _elements_in_rows(builder, packed, rows)
        builder.node(UnpackNode, (bytes_,), elements, packed.bits)
        builder.homes.holds_rows(packed.elements, elements, rows.axes)
    else:
        places = _places(builder, packed)
        bytes_ = _bytes_of_lanes(builder, packed, given=True)
        elements = _lanes(builder, packed.elements, bytes_.rows, places.columns)
        builder.node(UnpackNode, (bytes_,), elements, packed.bits)
        builder.homes.hold(packed.elements, elements, places, _axes(builder, packed))
    builder.homes.lies_at(packed.name, packed.tensor.shape, bytes_)


def _axes(builder: LayerBuilder, packed: PackedTensor) -> Axes | None:
    """Return the view as whose rows the elements lie; None if their tiles break or mix them."""
    carried = replace(packed.tensor, shape=carrier_shape(packed.tensor.shape))
    rows = as_rows(carried, builder.chip)
    return rows.axes if rows else None


def _rows(builder: LayerBuilder, packed: PackedTensor) -> Rows | None:
    """Return the rows in which the elements lie, if each begins and ends with a byte."""
    carried = replace(packed.tensor, shape=carrier_shape(packed.tensor.shape))
    rows = as_rows(carried, builder.chip)
    if rows is None:
        return None
    cols = _dims(packed, rows)[-1]
    return None if cols % packed.per_byte or rows.width % packed.per_byte else rows


def _dims(packed: PackedTensor, rows: Rows) -> tuple[int, ...]:
    dims = packed.tensor.shape.dims
    return tuple(math.prod(dims[axis] for axis in group) for group in rows.axes)


def _elements_in_rows(builder: LayerBuilder, packed: PackedTensor, rows: Rows) -> Matrix:
    tall = block_rows(builder.chip)
    return builder.whole_rows(packed.elements, _dims(packed, rows), rows.axes, tall)


def _bytes_in_rows(
    builder: LayerBuilder, packed: PackedTensor, rows: Rows, *, given: bool
) -> Matrix:
    *others, cols = _dims(packed, rows)
    dims, tall = (*others, cols // packed.per_byte), block_rows(builder.chip)
    matrix = builder.whole_rows(packed.name, dims, rows.axes, tall)
    return builder.at_place(matrix, packed.tensor, rows.width // packed.per_byte, given=given)


def _lanes(builder: LayerBuilder, tensor: str, rows: int, cols: int) -> Matrix:
    """Return a matrix of what partitions hold, in one tile."""
    return builder.whole_rows(tensor, (rows, cols), ((), ()), rows)


def _bytes_of_lanes(builder: LayerBuilder, packed: PackedTensor, *, given: bool) -> Matrix:
    width = _width(builder, packed)
    matrix = _lanes(builder, packed.name, _places(builder, packed).sizes()[1], width)
    return builder.at_place(matrix, packed.tensor, width, given=given)


def _width(builder: LayerBuilder, packed: PackedTensor) -> int:
    """Return the bytes that a tensor on the chip takes in each partition."""
    found = Scattered.of(packed.tensor, builder.chip).spreading.elements
    return -(-found // packed.per_byte)


def _places(builder: LayerBuilder, packed: PackedTensor) -> Scattered:
    """Return the places of the elements in the matrix that whole bytes give."""
    found = Scattered.of(packed.tensor, builder.chip)
    shape = carrier_shape(packed.tensor.shape)
    return Scattered(shape, found.spreading, _width(builder, packed) * packed.per_byte)


# Outputs


def prepare_outputs(builder: LayerBuilder, carried: Carried) -> None:
    """Let the elements of a result in DRAM begin as its bytes, if some of them are padding."""
    for packed in carried.outputs:
        if packed.tensor.home == "dram" and _is_padded(builder, packed):
            builder.begin(packed.layer)
            builder.choose(f"{packed.name} is unpacked first: its padding keeps its bits")
            _unpack_in_dram(builder, packed, background=True)


def _is_padded(builder: LayerBuilder, packed: PackedTensor) -> bool:
    places = builder.dram.place(packed.name).num_elements() * packed.per_byte
    return places != packed.tensor.shape.num_elements()


def pack_output(builder: LayerBuilder, packed: PackedTensor) -> None:
    """Pack a result, whose elements are in DRAM if that is its home."""
    builder.choose(f"{packed.name} is packed: {packed.per_byte} elements to each byte")
    if packed.tensor.home == "dram":
        bytes_ = builder.dram.place(packed.name)
        elements = _tiles(builder, _elements(bytes_, packed), packed.name, _unpacked(packed))
        made = _tiles(builder, bytes_, packed.name, "")
        builder.node(PackNode, (elements,), made, packed.bits)
        builder.store_at(made, packed.name, AXES)
    else:
        _pack_on_chip(builder, packed)


def _pack_on_chip(builder: LayerBuilder, packed: PackedTensor) -> None:
    if rows := _rows(builder, packed):
        bytes_ = _bytes_in_rows(builder, packed, rows, given=False)
        elements = _elements_in_rows(builder, packed, rows)
        builder.node(ConvertNode, (builder.view(packed.elements, rows.axes),), elements)
    else:
        places = _places(builder, packed)
        _, lanes, cols = places.sizes()
        padded = lanes * cols != packed.tensor.shape.num_elements()
        bytes_ = _bytes_of_lanes(builder, packed, given=padded)
        elements = _lanes(builder, packed.elements, lanes, cols)
        if padded:
            builder.node(UnpackNode, (bytes_,), elements, packed.bits, background=True)
        builder.homes.deal_out(packed.elements, elements, places, _axes(builder, packed))
    builder.node(PackNode, (elements,), bytes_, packed.bits)
    builder.homes.lies_at(packed.name, packed.tensor.shape, bytes_)
    builder.keep_at_end(bytes_, packed.name, ((), ()))
