"""Matrices and nodes, the result of the first pass: a graph's work in the machine's terms.

A matrix is one way to see a tensor: [batch..., rows, columns], with rows on partitions. Nodes make
matrices from matrices; layers say which operation each node came from. No sizes of a chip enter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.diagonal import DiagonalTiles
from systolic.compiler.ir.gathers import GatherPart, PlaceValues
from systolic.compiler.ir.lane_step import COPY, LaneStep
from systolic.compiler.ir.pixels import PooledPixels
from systolic.compiler.ir.windows import AnyWindow
from systolic.hw.datatypes import data_type
from systolic.isa.instruction import OnEngine
from systolic.layout import Shape
from systolic.spans import Span

Axes = tuple[tuple[int, ...], ...]
EngineInstruction = Callable[..., OnEngine]
"""Makes an instruction of the keywords engine, target, and its operands, such as source."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the elements of a matrix come from: the chip at cycle 0, DRAM, or a node.

    dram: the place that they are brought from. picked: the row of the place for each row of the
    matrix (none: the same).
    """

    kind: Literal["state_buffer", "dram", "node"]
    dram: str = ""
    picked: tuple[int, ...] = ()


GIVEN, MADE = Source("state_buffer"), Source("node")


@dataclass(frozen=True, slots=True)
class UnbrokenRows:
    """Rows of tiles that lie one behind the other from one byte on.

    width: how many elements of a partition there are from one row of tiles to the next. partition:
    the one of the first row. byte: where they must begin (None: anywhere).
    """

    width: int
    partition: int
    byte: int | None


@dataclass(frozen=True, slots=True)
class Lies:
    """How a matrix lies on the chip, and how its tiles come and go.

    rows: the unbroken rows in which it lies (None: its tiles may lie anywhere). window: how it lies
    in another matrix, if it has no tiles of its own. keep: it must stand in the state buffer at the
    end. shared: how many queues together move each of its tiles (0: as the schedule finds best).
    repeats: its only row of tiles stands for every row of tiles of a result.
    """

    rows: UnbrokenRows | None = None
    window: AnyWindow | None = None
    keep: bool = False
    shared: int = 0
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """A tensor as a batch of matrices whose rows lie on partitions.

    dims: [batch..., rows, columns]. axes: for each of them the dimensions of the tensor that make
    it up, major to minor. block: its own tile T(p,q), if not the compilation's.
    """

    name: str
    tensor: str
    dtype: str
    dims: tuple[int, ...]
    axes: Axes
    source: Source = MADE
    block: tuple[int, int] | None = None
    lies: Lies = Lies()

    @property
    def batch(self) -> tuple[int, ...]:
        """Return the sizes of the batch."""
        return self.dims[:-2]

    @property
    def rows(self) -> int:
        """Return how many rows each matrix has."""
        return self.dims[-2]

    @property
    def cols(self) -> int:
        """Return how many columns each matrix has."""
        return self.dims[-1]

    @property
    def matrices(self) -> int:
        """Return how many matrices there are."""
        return math.prod(self.batch)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all elements."""
        return math.prod(self.dims) * data_type(self.dtype).size_bytes

    @property
    def window(self) -> AnyWindow | None:
        """Return how it lies in another matrix, if it has no tiles of its own."""
        return self.lies.window

    @property
    def holder(self) -> str:
        """Return the name of the matrix in whose tiles the elements lie."""
        return self.lies.window.holder if self.lies.window else self.name

    @property
    def partition(self) -> int:
        """Return the partition of the first row."""
        return self.lies.rows.partition if self.lies.rows else 0

    def lying(self, **how: Any) -> Matrix:
        """Return the same matrix with other fields of `Lies`."""
        return replace(self, lies=replace(self.lies, **how))

    def anew(self, name: str) -> Matrix:
        """Return a matrix like this one for a node to make: it lies nowhere yet."""
        made = replace(self, name=name, source=MADE)
        return made.lying(rows=None, window=None, keep=False)

    def seen_in(self, window: AnyWindow, name: str) -> Matrix:
        """Return a matrix like this one within the tiles of a window's holder, as the window says.

        Where these tiles lie, and whether they are kept, is the holder's business.
        """
        return replace(self, name=name).lying(rows=None, window=window, keep=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.dims))}] ({self.source.kind})"


def spread_place(operand: Matrix, out: Matrix, place: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the element of an operand that a step spreads over an element of its result.

    Places are (number of the matrix, row, column). A repeated row stands in every row of a tile.
    """
    number, row, col = place
    return (
        operand_number(operand, out, number),
        row % operand.rows if operand.lies.repeats else row,
        0 if operand.cols == 1 else col,
    )


def operand_number(operand: Matrix, out: Matrix, number: int) -> int:
    """Return which matrix of an operand makes the result's `number`-th, by numpy's rules."""
    if operand.batch == out.batch:
        return number
    found, step = 0, 1
    sizes = dict(enumerate(reversed(operand.batch)))
    for place, size in enumerate(reversed(out.batch)):
        number, index = divmod(number, size)
        if sizes.get(place, 1) > 1:
            found += index * step
            step *= size
    return found


def rows_beside(operand: Matrix, out: Matrix, number: int, rows: Span) -> tuple[int, Span]:
    """Return matrix and rows of an operand that make whole rows of a result's `number`-th matrix.

    They are the same rows, or of an operand of other rows its first ones.
    """
    if operand.dims[:-1] == out.dims[:-1]:
        return number, rows
    return 0, Span(0, min(rows.count, operand.rows))


@dataclass(frozen=True, slots=True)
class Node:
    """One piece of work, of the operation `layer`: a matrix is made of the inputs."""

    layer: str
    inputs: tuple[str, ...]
    output: str

    @classmethod
    def word(cls) -> str:
        """Return the word for nodes of this class."""
        return cls.__name__.removesuffix("Node").lower()

    @property
    def made(self) -> tuple[str, ...]:
        """Return the names of the matrices that the node makes."""
        return (self.output,)

    @property
    def others(self) -> tuple[tuple[str, str], ...]:
        """Return the further operands of a step: field of the instruction, and matrix."""
        return ()

    def __str__(self) -> str:
        return f"{', '.join(self.made)} = {self.word()}({', '.join(self.inputs)})"


@dataclass(frozen=True, slots=True)
class SteppedNode(Node):
    """A node with an engine's instruction, which makes the result or takes the sums out.

    Inputs of the step that have one row of tiles, one column or one matrix broadcast.
    """

    step: LaneStep = COPY

    @property
    def others(self) -> tuple[tuple[str, str], ...]:
        """Return the further operands of the step: field of the instruction, and matrix."""
        names = self.step.others
        return tuple(zip(names, self.inputs[len(self.inputs) - len(names) :], strict=True))


@dataclass(frozen=True, slots=True)
class MultiplyNode(SteppedNode):
    """result[p, q] = sum over k of stationary[k, p] * moving[k, q]: the first two inputs.

    It is done for each matrix of the result; the inputs' batches broadcast. The step takes the sums
    out. diagonal: the tiles of the stationary matrix that are not zero (None: all); the others are
    left out. fold: how many neighbouring rows k of the tensors each partition has, which says in
    which order they are added (`folded_rows.RowFold`).
    """

    diagonal: DiagonalTiles | None = None
    fold: int = 1


@dataclass(frozen=True, slots=True)
class DiagonalNode(Node):
    """Square tiles with one column of the input along the diagonal of each, as `tiles` says."""

    tiles: DiagonalTiles


@dataclass(frozen=True, slots=True)
class TurnNode(Node):
    """The transpose of each matrix, by an identity product or by an engine."""


@dataclass(frozen=True, slots=True)
class BounceNode(Node):
    """The transpose of each matrix, by a trip to DRAM and back."""


@dataclass(frozen=True, slots=True)
class MoveNode(Node):
    """The same elements as other matrices, on the chip, as `change` says."""

    change: ChangeOfView


@dataclass(frozen=True, slots=True)
class GatherNode(Node):
    """Boxes of the inputs and of one value: together every element of the result once."""

    parts: tuple[GatherPart, ...]
    value: float | PlaceValues = 0.0


@dataclass(frozen=True, slots=True)
class ConvertNode(SteppedNode):
    """The step on every element, such as a Copy to another type.

    reduced: the matrix of the sums of segments of columns, which the same instructions make, as a
    reduction would ("": none).
    """

    reduced: str = ""

    @property
    def made(self) -> tuple[str, ...]:
        """Return the names of the matrices that the node makes."""
        return (self.output, self.reduced) if self.reduced else (self.output,)


@dataclass(frozen=True, slots=True)
class ReduceNode(SteppedNode):
    """One column of each segment of columns, as many as a block has rows, by a Pool."""


@dataclass(frozen=True, slots=True)
class RowsNode(SteppedNode):
    """Whole rows of all inputs make whole rows; an input of other rows is there for all of them.

    backwards: from the last column to the first.
    """

    backwards: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNode(SteppedNode):
    """One column of each window of pixels."""

    pooled: PooledPixels


@dataclass(frozen=True, slots=True)
class RepeatNode(Node):
    """The only row of a matrix in every partition of a tile."""


@dataclass(frozen=True, slots=True)
class UnpackNode(Node):
    """The elements of `bits` in each byte, a byte for each.

    background: work writes over some of the elements.
    """

    bits: int
    background: bool = False


@dataclass(frozen=True, slots=True)
class PackNode(Node):
    """Bytes of elements of `bits`, which are lost."""

    bits: int


@dataclass(frozen=True, slots=True)
class StoreNode(Node):
    """A matrix is written to the place `dram`, seen as `axes`; it makes none.

    background: work writes over some of the elements.
    """

    output: str = field(default="", init=False)
    dram: str
    axes: Axes
    background: bool = False

    @property
    def made(self) -> tuple[str, ...]:
        """Return no names."""
        return ()

    def __str__(self) -> str:
        return f"dram:{self.dram} = {self.word()}({', '.join(self.inputs)})"


NODE_KINDS: tuple[type[Node], ...] = (
    MultiplyNode,
    DiagonalNode,
    TurnNode,
    BounceNode,
    MoveNode,
    GatherNode,
    ConvertNode,
    ReduceNode,
    RowsNode,
    PoolNode,
    RepeatNode,
    UnpackNode,
    PackNode,
    StoreNode,
)
"""Each pass has a table with a row for each of them (`for_every_kind`)."""

_Row = TypeVar("_Row")


def for_every_kind(table: Mapping[type[Node], _Row]) -> Mapping[type[Node], _Row]:
    """Return a pass's table of node kinds; raise KeyError at import if a kind has no row."""
    if missing := set(NODE_KINDS) - table.keys():
        raise KeyError(f"no row for node kind {', '.join(sorted(each.word() for each in missing))}")
    return table


@dataclass(frozen=True, slots=True)
class TensorInDram:
    """A tensor in DRAM: shape with layout and byte address.

    The shape is kept as a value and not as text, because legacy padding has no text form. start:
    the first byte of the whole place; this may be a part of it.
    """

    name: str
    shape: Shape
    base: int
    size_bytes: int
    start: int


@dataclass(frozen=True, slots=True)
class Kept:
    """An output that stands in the state buffer at the end, and the matrix that shows it.

    axes: for each of (batch..., row, column) the dimensions of the output that make it up. layer:
    the operation that makes the output.
    """

    tensor: str
    matrix: str
    axes: Axes
    layer: str


@dataclass(frozen=True, slots=True)
class TensorOnChip:
    """A tensor that is on the chip at cycle 0 or at the end.

    shape: in tiles, which say where its elements lie. matrix: the matrix that lies there. chosen:
    the compiler has chosen the tiles, and may let the tensor lie in pieces for want of room.
    """

    tensor: str
    shape: Shape
    matrix: str
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Layers:
    """The result of the first pass: nodes in order, the matrices they connect, places in DRAM.

    choices: the decisions in words, with the estimates that they were based on. homes: tensors on
    the chip whose tiles say where they lie.
    """

    nodes: tuple[Node, ...]
    matrices: tuple[Matrix, ...]
    dram: tuple[TensorInDram, ...]
    kept: tuple[Kept, ...]
    choices: tuple[str, ...]
    homes: tuple[TensorOnChip, ...] = ()

    def in_pieces(self) -> Layers:
        """Return the same layers without the places that the compiler has chosen."""
        homes = tuple(home for home in self.homes if not home.chosen)
        fixed = {home.matrix for home in homes}
        matrices = tuple(m if m.name in fixed else m.lying(rows=None) for m in self.matrices)
        return replace(self, matrices=matrices, homes=homes)

    def shown(self, tensor: str) -> Axes:
        """Return the axes as which a kept output stands in the state buffer."""
        return next(kept.axes for kept in self.kept if kept.tensor == tensor)

    def matrix(self, name: str) -> Matrix:
        """Return the matrix of that name."""
        return next(m for m in self.matrices if m.name == name)
