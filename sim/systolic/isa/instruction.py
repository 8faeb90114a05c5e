"""The whole instruction set on one screen. Nothing here acts; units in `systolic.machine` do.

Every instruction belongs to one queue. It starts when its waits are satisfied (the count of
posts visible on a semaphore has reached a value) and its unit can take it; queues are in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from systolic.hw.units import EngineName, dma_queue
from systolic.isa.access import Access

__all__ = [
    "Activate", "ActivationFunction", "AluOperation", "Copy", "DmaCopy", "EngineName", "Event",
    "Instruction", "Iota", "LoadWeights", "MatMul", "Memset", "OnEngine", "Pool", "Post",
    "Reduction", "Relation", "Select", "TensorScalar", "TensorTensor", "Wait",
]  # fmt: skip

ActivationFunction = Literal[
    "identity", "exponential", "square", "square_root", "binary_step", "bipolar_step", "sigmoid",
    "ramp", "tanh", "gelu", "silu", "reciprocal", "rsqrt", "log", "sin", "abs", "sign",
    "leaky_relu", "softplus",
]  # fmt: skip
Reduction = Literal["max", "min", "mean", "median", "sum", "product"]
Relation = Literal["equal", "not_equal", "greater", "greater_equal", "less", "less_equal"]
AluOperation = Literal[
    "add", "subtract", "multiply", "divide", "power", "max", "min", "and", "or", "xor",
    "shift_left", "shift_right_logical", "shift_right_arithmetic",
    "equal", "not_equal", "greater", "greater_equal", "less", "less_equal",
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


Instruction: TypeAlias = LoadWeights | MatMul | OnEngine | DmaCopy
