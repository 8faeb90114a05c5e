"""Instructions of the engines, which work lane by lane."""

from __future__ import annotations

from dataclasses import dataclass

from systolic.hw.functions import ActivationFunction, AluOperation, Fold, Reduction, Relation
from systolic.hw.units import EngineName
from systolic.isa.access import Access
from systolic.isa.instruction.posts import Post, Wait


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
    Each lane of `values` and of the target has eight elements; the target's are s32.
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
    first, of equal ones the one with the lower number. Where the last element of target and indices
    has more places than results, those get -infinity and -1. All values are bf16, numbers s32.
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

    The sum is calculated as in TensorScalar, the product is of float32; the target's type is an
    integer.
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
