"""What a row of the table of operations holds, and what the rows share.

Nothing here knows a chip beyond `Rules`; the rows themselves are in the files beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape


@dataclass(frozen=True, slots=True)
class Rules:
    """What the arithmetic of a chip depends on.

    k_tiles: boundaries of the K-tiles of a contraction of that length; fused: one rounding per
    multiply-add.
    """

    k_tiles: Callable[[int], Sequence[int]]
    fused: bool = False


@dataclass(frozen=True, slots=True)
class Attributes:
    """What an operation is told beside its tensors: nothing, or the fields of a subclass.

    A field is a key of run files. Its annotation says what the key takes and describes it, in
    pydantic's terms; a field without a default is a key that must be given.
    """


NO_ATTRIBUTES = Attributes()

A = TypeVar("A", bound=Attributes)


def as_given(shapes: Sequence[Shape], attributes: A) -> A:
    """Return the attributes: nothing follows from the shapes."""
    return attributes


@dataclass(frozen=True, slots=True)
class Operand:
    """An input by the name it has where [workload] is one operation; `about` describes the key."""

    name: str
    about: str = "XLA shape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Generic[A]):
    """An operation: its inputs, its attributes, and what it means.

    operands: one for each input; the only input of an operation has the key `shape` in run files.
    result: name of the result where [workload] is one operation.
    attributes: the class of its attributes. settle(shapes, attributes) puts in what was left out
    and follows from the shapes of the inputs.
    check(shapes, out, attributes): raises WorkloadError if the shapes do not go together.
    default_out(shapes, attributes): the shape of the result, where [workload] is one operation and
    leaves `out` out; None: `out` must be given. Raises WorkloadError.
    reference(arrays, out, attributes, rules): what the hardware rules give, bit for bit.
    exact(arrays, out, attributes): the same in float64 (integers: int64), unrounded.

    Arrays are in logical order, one for each input.
    """

    operands: tuple[Operand, ...]
    check: Callable[[Sequence[Shape], Shape, A], None]
    reference: Callable[[Sequence[Array], Shape, A, Rules], Array]
    exact: Callable[[Sequence[Array], Shape, A], Array]
    attributes: type[A]
    settle: Callable[[Sequence[Shape], A], A] = as_given
    default_out: Callable[[Sequence[Shape], A], Shape] | None = None
    result: str = "out"


AnyRow = Row[Any]
ONE_SHAPE = (Operand("shape"),)


def plain(shape: Shape) -> str:
    """Return type and dimensions of a shape without its layout."""
    return f"{shape.element_type}[{','.join(map(str, shape.dims))}]"


def check_gives(source: Shape, element_type: str, dims: tuple[int, ...], out: Shape) -> None:
    """Raise WorkloadError if the result of `source` is not declared as that type and dimensions."""
    if (out.element_type, out.dims) != (element_type, dims):
        wanted = f"{element_type}[{','.join(map(str, dims))}]"
        raise WorkloadError(f"{plain(source)} gives {wanted}, but out is {plain(out)}")
