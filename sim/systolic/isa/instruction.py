"""The whole instruction set on one screen. Nothing here acts; units in `systolic.machine` do.

Every instruction belongs to one queue. It starts when its waits are satisfied (the count of
posts visible on a semaphore has reached a value) and its unit can take it; queues are in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from systolic.hw.datatypes import data_type
from systolic.hw.functions import ActivationFunction, AluOperation, Fold, Reduction, Relation
from systolic.hw.units import EngineName, dma_queue
from systolic.isa.access import Access
from systolic.isa.array_tile import ArrayTile

__all__ = [
    "Activate", "ActivateReduce", "ActivationFunction", "AluOperation", "BnAggr", "BnStats",
    "Copy", "CopyDynamicDst", "CopyDynamicSrc", "CopyPredicated", "DmaCopy", "DmaTranspose",
    "Dropout", "EngineName", "Event", "FindIndex8", "Fold", "Instruction", "Iota",
    "LoadDoubleRow", "LoadMx", "LoadTile", "LoadWeights", "LocalGather", "MatMul",
    "MatMulDoubleRow", "MatMulMx", "MatMulTile", "MatchReplace8", "Max8", "Memset", "OnEngine",
    "PartitionReduce", "PassThrough", "Pool", "Post", "QuantizeMx", "RangeSelect", "Reduction",
    "Relation", "Requantise", "ScalarTensorTensor", "Scan", "Select", "SelectReduce", "Shuffle",
    "TensorScalar", "TensorScalarReduce", "TensorTensor", "TopK", "Transpose", "Wait",
]  # fmt: skip

Event = Literal["done", "row", "partition"]


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the instruction back until `semaphore` has been posted `value` times."""

    semaphore: int
    value: int


@dataclass(frozen=True, slots=True)
class Post:
    """Add 1 to `semaphore` when done, or (MatMul) per completed PSUM row or partition."""

    semaphore: int
    on: Event = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWeights:
    """Load a K x N tile of stationary weights: K partitions, N elements each (state buffer)."""

    weights: Access
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return "pe_array"

    @property
    def tile(self) -> ArrayTile | None:
        """Return the tile of the array that is loaded; None: the array is one."""
        return None

    @property
    def rows_per_pe(self) -> int:
        """Return how many rows of the stationary matrix a PE holds."""
        return 1

    @property
    def elements_per_pe(self) -> int:
        """Return how many elements of `weights` go to a PE."""
        return self.rows_per_pe

    @property
    def columns(self) -> int:
        """Return N, the columns of weights that are loaded."""
        return self.weights.elements // self.elements_per_pe


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul:
    """Stream M moving vectors (K partitions, M elements each) through the loaded weights.

    result: N partitions of the result buffer, M words each, in one bank. With accumulate, the
    column sum is added to the stored word. Without a LoadWeights since the MatMul before, the
    weights are reused.
    """

    moving: Access
    result: Access
    accumulate: bool = False
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return "pe_array"

    @property
    def tile(self) -> ArrayTile | None:
        """Return the tile of the array that multiplies; None: the array is one."""
        return None

    @property
    def rows_per_pe(self) -> int:
        """Return how many moving values a PE takes of each vector."""
        return 1

    @property
    def elements_per_pe(self) -> int:
        """Return how many elements of `moving` a PE takes of each vector."""
        return self.rows_per_pe

    @property
    def vectors(self) -> int:
        """Return M, the number of moving vectors."""
        return self.moving.elements // self.elements_per_pe


@dataclass(frozen=True, slots=True, kw_only=True)
class PassThrough(MatMul):
    """A MatMul that passes weights on with all their bits, and neither multiplies nor adds.

    A PE whose moving element is not 0 sends its weight down in place of the sum that came from
    above, every other PE sends that on. So an identity as moving vectors turns the weights.
    result: of the weights' type; an element takes a word, its upper bits are 0. Nothing is added:
    accumulate is False.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadDoubleRow(LoadWeights):
    """A LoadWeights of 2 K rows into K rows of PEs: each PE holds two of a column.

    weights: K partitions, 2 N elements each; two that follow one another are of one column, the
    first of row 2 r, the second of row 2 r + 1.
    """

    @property
    def rows_per_pe(self) -> int:
        """Return how many rows of the stationary matrix a PE holds."""
        return 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMulDoubleRow(MatMul):
    """A MatMul of vectors of 2 K elements: a PE multiplies two pairs in the time of one.

    moving: K partitions, 2 M elements each; two that follow one another are of one vector. A PE
    adds the product of its first row to the sum from above, then that of its second row.
    """

    @property
    def rows_per_pe(self) -> int:
        """Return how many moving elements a PE takes of each vector."""
        return 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTile(LoadWeights):
    """A LoadWeights of one tile of the array; tiles without a PE in common keep their weights.

    tile_size: rows and columns. tile_position: its first row and column in the array, multiples of
    them. weights: K partitions from that row on, K and N no more than the tile's rows and columns.
    """

    tile_size: tuple[int, ...]
    tile_position: tuple[int, ...]

    @property
    def tile(self) -> ArrayTile:
        """Return the tile of the array that is loaded."""
        return ArrayTile.at(self.tile_position, self.tile_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMulTile(MatMul):
    """A MatMul on one tile of the array, beside those on other tiles.

    tile_size, tile_position: those of the LoadTile whose weights it takes. moving: K partitions
    from the tile's first row on. result: N partitions from the tile's first column on.
    """

    tile_size: tuple[int, ...]
    tile_position: tuple[int, ...]

    @property
    def tile(self) -> ArrayTile:
        """Return the tile of the array that multiplies."""
        return ArrayTile.at(self.tile_position, self.tile_size)


MX_ROWS = 4
"""Rows of the contraction that a PE has of an MX product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMx(LoadWeights):
    """A LoadWeights of 4 K rows into K rows of PEs, of numbers that share scales (OCP MX).

    weights: K partitions, 4 N elements each, or N of a type that packs four; four that follow one
    another are of one column, of rows 4 r to 4 r + 3. scales: a scale for each column and group of
    8 partitions, N elements in each partition (`systolic.isa.scales`). tile_size, tile_position: a
    tile of whole rows of the array, as of LoadTile; empty: all of it.
    """

    scales: Access
    tile_size: tuple[int, ...] = ()
    tile_position: tuple[int, ...] = ()

    @property
    def tile(self) -> ArrayTile | None:
        """Return the tile of the array that is loaded; None: the array is one."""
        return ArrayTile.at(self.tile_position, self.tile_size) if self.tile_size else None

    @property
    def rows_per_pe(self) -> int:
        """Return how many rows of the stationary matrix a PE holds."""
        return MX_ROWS

    @property
    def elements_per_pe(self) -> int:
        """Return how many elements of `weights` go to a PE."""
        return MX_ROWS // data_type(self.weights.dtype).packed


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMulMx(MatMul):
    """A MatMul of vectors of 4 K numbers that share scales: a PE multiplies four pairs at a time.

    moving: K partitions, 4 M elements each, or M of a type that packs four; four that follow one
    another are of one vector. scales: a scale for each vector and group of 8 partitions. Each
    number is taken to float32 times its scale. A PE adds the product of its first row to the sum
    from above, then that of its second, third and fourth. tile_size, tile_position: those of the
    LoadMx.
    """

    scales: Access
    tile_size: tuple[int, ...] = ()
    tile_position: tuple[int, ...] = ()

    @property
    def tile(self) -> ArrayTile | None:
        """Return the tile of the array that multiplies; None: the array is one."""
        return ArrayTile.at(self.tile_position, self.tile_size) if self.tile_size else None

    @property
    def rows_per_pe(self) -> int:
        """Return how many moving values a PE takes of each vector."""
        return MX_ROWS

    @property
    def elements_per_pe(self) -> int:
        """Return how many elements of `moving` a PE takes of each vector."""
        return MX_ROWS // data_type(self.moving.dtype).packed


@dataclass(frozen=True, slots=True, kw_only=True)
class OnEngine:
    """What the instructions of the engines have in common: which engine of the chip executes them.

    They work lane by lane and element by element, in the order of their accesses, which all have
    equally many partitions; values are cast to the target's type. An operand that is `Access |
    float` and not the first is read once per lane: one element in each partition.
    """

    engine: EngineName
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return self.engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(OnEngine):
    """Copy lane by lane, casting to the target's type; lanes are the source's partitions."""

    source: Access
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyDynamicSrc(OnEngine):
    """A Copy whose source lies `offset` elements further: a number that is read as it is executed.

    source: where it lies at offset 0. offset: one s32, 0 to `most`, in the state buffer. All places
    that the source may have lie in one bank, so that no cycle depends on the number.
    """

    source: Access
    offset: Access
    most: int
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyDynamicDst(OnEngine):
    """A Copy whose target lies `offset` elements further, as the source of a CopyDynamicSrc does.

    What else the target may have been keeps what it has.
    """

    source: Access
    target: Access
    offset: Access
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memset(OnEngine):
    """Write one value to every element of the target; lanes are the target's partitions."""

    target: Access
    value: int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Activate(OnEngine):
    """target = function(source * scale + bias), in float32."""

    engine: EngineName = "activation"
    function: ActivationFunction
    source: Access
    target: Access
    scale: float = 1.0
    bias: Access | float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(OnEngine):
    """Reduce each `window` consecutive elements of the source to one element of the target."""

    engine: EngineName = "pooling"
    function: Reduction
    window: int
    source: Access
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTensor(OnEngine):
    """target = left op right."""

    op: AluOperation
    left: Access
    right: Access
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorScalar(OnEngine):
    """target = (source op scalar) then other; reversed, an operation has its operands swapped."""

    op: AluOperation
    source: Access
    scalar: Access | float
    target: Access
    reverse: bool = False
    then: AluOperation | None = None
    other: Access | float = 0.0
    then_reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivateReduce(OnEngine):
    """target = function(source * scale + bias), as Activate; reduced = the sum in each lane.

    The float32 results are added in their order, before they are cast to the target's type.
    """

    function: ActivationFunction
    source: Access
    target: Access
    reduced: Access
    scale: float = 1.0
    bias: Access | float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorScalarReduce(OnEngine):
    """target = source op scalar; reduced = the results of each lane, folded in their order.

    The results are folded in the type they are computed in, before the cast to the target's.
    """

    op: AluOperation
    fold: Fold
    source: Access
    scalar: Access | float
    target: Access
    reduced: Access
    reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarTensorTensor(OnEngine):
    """target = (source op scalar) then tensor; reversed, an operation has its operands swapped."""

    op: AluOperation
    then: AluOperation
    source: Access
    scalar: Access | float
    tensor: Access
    target: Access
    reverse: bool = False
    then_reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(OnEngine):
    """Turn each block of side x side elements: `side` partitions, as many elements of each.

    The blocks stay where they are. NeuronCore's have 32 x 32 elements.
    """

    source: Access
    target: Access
    side: int = 32


UNCHANGED = 255
"""In the mask of a Shuffle: the lane keeps what it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle(OnEngine):
    """target[p] = source[mask[p]] in each group of as many partitions as the mask has entries.

    A lane whose entry is 255 keeps what it has. NeuronCore's groups have 32 partitions.
    """

    source: Access
    target: Access
    mask: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(OnEngine):
    """target[i] = (left[i] op target[i - 1]) then right[i]; before the first one is `initial`.

    The result of an element enters the next one as it was computed, before its cast.
    """

    op: AluOperation
    then: AluOperation
    left: Access
    right: Access
    target: Access
    initial: Access | float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPredicated(OnEngine):
    """target = source where the predicate is not 0; elsewhere the target keeps what it has."""

    source: Access
    predicate: Access
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectReduce(OnEngine):
    """target = source where the predicate is not 0, else other; reduced = their fold.

    reverse: source where the predicate is 0.
    """

    fold: Fold
    source: Access
    predicate: Access
    other: Access | float
    target: Access
    reduced: Access
    reverse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSelect(OnEngine):
    """target = source where base + element is in a range, else other; reduced = their fold.

    In the range: base + element compare bound, and base + element compare_end end.
    """

    fold: Fold
    compare: Relation
    compare_end: Relation
    source: Access
    bound: Access | float
    end: Access | float
    target: Access
    reduced: Access
    base: int = 0
    other: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BnStats(OnEngine):
    """Six numbers for each lane: count, mean and count * variance of the even and odd elements."""

    source: Access
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class BnAggr(OnEngine):
    """Mean and variance of each lane from several (count, mean, count * variance) of BnStats."""

    source: Access
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Max8(OnEngine):
    """The eight largest elements of each lane, the largest first."""

    source: Access
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class FindIndex8(OnEngine):
    """For each of the eight `values` of a lane: which element of the source equals it.

    That is the first one, counted from 0; of values that are equal, the second one is given the
    second such element, and so on. A value that none is left for gives -1, all bits of a word.
    Each lane of `values` and of the target has eight elements; those of the target are s32.
    """

    source: Access
    values: Access
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchReplace8(OnEngine):
    """target = source, but `other` in place of an element for each of the lane's eight `values`.

    That is the first element which equals the value; of values that are equal, the last one is
    given the first such element, the one before it the second, and so on. indices: where those
    elements are, as FindIndex8 says it, eight in each lane of s32.
    """

    source: Access
    values: Access
    target: Access
    other: float
    indices: Access | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGather(OnEngine):
    """target[p, j * each + k] = source[p, i + k] for the j-th index i of p's group of partitions.

    A group is `group` partitions, whose indices follow one another down its partitions, then
    element by element: the j-th is index[j % group, j // group]. An index counts the elements of
    `source`, in the order of its access; it is an s32. source: all that may be read, in one bank.
    each: how many elements that follow one another an index gives to each partition.
    """

    source: Access
    index: Access
    target: Access
    each: int = 1
    group: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(OnEngine):
    """The k largest of the first `count` elements of each group of partitions, and their numbers.

    The elements of a group of `group` partitions are numbered down these, then element by element:
    number j is element j // group of its partition j % group. The results lie likewise, the largest
    first, of equal ones that of the lower number. Where the last element of target and indices has
    more places than results, those get -infinity and -1. All values are bf16, numbers s32.
    """

    source: Access
    target: Access
    indices: Access
    count: int
    k: int
    group: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReduce(OnEngine):
    """Fold over the partitions of the source, in their order; the target has one partition."""

    fold: Fold
    source: Access
    target: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropout(OnEngine):
    """target = 0 with that probability, else source.

    Which elements are 0 follows from the seed, the lane and the element, both counted from 0
    (`systolic.machine.values.random_bits`).
    """

    source: Access
    target: Access
    probability: Access | float
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Iota(OnEngine):
    """target = base + per_partition * lane + per_element * element, both counted from 0."""

    target: Access
    base: int = 0
    per_partition: int = 0
    per_element: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(OnEngine):
    """target = value where (base + per_partition * lane + per_element * element) compare 0.

    Elsewhere other. A value that is an access is read element by element. The identity:
    compare="equal", per_partition=1, per_element=-1, value=1.
    """

    compare: Relation
    value: Access | float
    target: Access
    base: int = 0
    per_partition: int = 0
    per_element: int = 0
    other: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Requantise(OnEngine):
    """target = (source + bias) * scale, rounded to nearest even, kept within lowest to highest.

    The sum is that of TensorScalar, the product is of float32; the target's type is an integer.
    """

    source: Access
    target: Access
    scale: Access | float
    bias: Access | float = 0
    lowest: int = -(1 << 31)
    highest: int = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeMx(OnEngine):
    """target = source divided by the scale of its group, in a type of MX; scales = these scales.

    A group is 8 partitions and four elements of each that follow one another. Its scale is 2 to the
    power of floor(log2 of the largest size in it) - e + headroom, 2^e being the largest power of
    two of the target's type. headroom: NeuronCore's 1, or 0, as in the example of OCP MX 1.0.
    scales: `systolic.isa.scales`.
    """

    source: Access
    target: Access
    scales: Access
    headroom: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaCopy:
    """Copy element by element, in the order of both accesses, through one DMA queue."""

    dma_queue: int
    source: Access
    target: Access
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the instruction."""
        return dma_queue(self.dma_queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class DmaTranspose(DmaCopy):
    """Copy a matrix to the state buffer, turned: its rows become elements, its columns partitions.

    The target has a partition for each of the C columns of the source, and in it an element for
    each of the R rows: element r of partition c is number r * C + c of the source, in the order of
    its access. So a source in the state buffer has R partitions of C elements.
    """


Instruction: TypeAlias = LoadWeights | MatMul | OnEngine | DmaCopy
