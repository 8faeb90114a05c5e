"""The fields of a row of the table of operations, and the code that rows share.

Of a chip nothing is known here but `Rules`. The rows themselves are in the files beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from systolic.arrays import Array, Integers
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.index_map import IndexMap


@dataclass(frozen=True, slots=True)
class RowWork:
    """What a chip's engines do with whole rows of elements, an instruction for each of them.

    scans: each element is combined with all before it (`scan`). searches: the eight largest
    elements, and where they are (`max8`, `find_index8`). moves: places from a number on that memory
    holds (`copy_dynamic_src`, `copy_dynamic_dst`). picks: places in the order of many such numbers
    (`local_gather`). bytes: the most that a row may have, which is what a bank has. lanes: the
    rows that are worked on at once.
    """

    scans: bool = False
    searches: bool = False
    moves: bool = False
    picks: bool = False
    bytes: int = 0
    lanes: int = 0

    def holds(self, shape: Shape, axis: int) -> bool:
        """Return whether a row has room for all places of an axis."""
        return shape.dims[axis] * max(4, shape.dtype.itemsize) <= self.bytes


NO_ROW_WORK = RowWork()


@dataclass(frozen=True, slots=True)
class Rules:
    """The properties of a chip that its arithmetic depends on.

    k_tiles: gives the boundaries of the K-tiles for a length of K. fused: each multiply-add rounds
    once. segment: how many elements an engine reduces at once (0: any number). k_order: gives the
    rows of the contraction, for a length of K, in the order in which a product takes them (None: as
    they are numbered); the boundaries count in that order. channels_of_tile: how many channels of a
    depthwise convolution are multiplied together, with zeros between them (0: each alone). rows:
    what engines do with whole rows.
    """

    k_tiles: Callable[[int], Sequence[int]]
    fused: bool = False
    segment: int = 0
    k_order: Callable[[int], Integers] | None = None
    channels_of_tile: int = 0
    rows: RowWork = NO_ROW_WORK


@dataclass(frozen=True, slots=True)
class Attributes:
    """The settings of an operation besides its tensors: none, or the fields of a subclass.

    Each field is a key of run files. Its annotation gives the values that the key takes and
    describes it, in pydantic's terms. A field without a default is a key that must be given.
    """


NO_ATTRIBUTES = Attributes()

A = TypeVar("A", bound=Attributes)


def as_given(shapes: Sequence[Shape], attributes: A) -> A:
    """Return the attributes unchanged, for operations where none follows from the shapes."""
    return attributes


@dataclass(frozen=True, slots=True)
class Operand:
    """An input: its name in a [workload] of one operation; `about` describes that key."""

    name: str
    about: str = "XLA shape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Generic[A]):
    """An operation: its inputs, its attributes, and its meaning.

    operands: one for each input; the only input of an operation has the key `shape` in run files.
    more_operands: in a graph it takes further inputs behind these.
    result: name of the result in a [workload] of one operation.
    attributes: the class of the attributes.
    settle(shapes, attributes): fills in attributes that were left out and follow from the shapes.
    check(shapes, out, attributes): raises WorkloadError if the shapes do not fit.
    default_out(shapes, attributes): the shape of the result if a [workload] of one operation leaves
    `out` out; raises WorkloadError. None: `out` must be given.
    reference(arrays, out, attributes, rules): the result by the rules of the hardware, bit for bit.
    exact(arrays, out, attributes): the result in float64 (integers: int64), unrounded.
    index_map(shapes, out, attributes): of an operation that only moves elements of its one input,
    where each of them comes from (`index_map.IndexMap`); the compiler then needs no more of it.
    parts(shapes, out, attributes): of a composite, the operations that it is made of
    (`recipe.CompositePart`). None: it is lowered itself.
    row_parts(shapes, out, attributes, rows): the parts by instructions of whole rows; None if
    engines that do `rows` cannot.
    needs(shapes, out, attributes): how many elements of each operand count at all, where some may
    not (None: all do).
    numbered: the operand whose numbers say which places are taken ("": none).
    computes: its results are other numbers than its operands, not only in other places or types.

    Arrays are in logical order, one for each input.
    """

    operands: tuple[Operand, ...]
    check: Callable[[Sequence[Shape], Shape, A], None]
    reference: Callable[[Sequence[Array], Shape, A, Rules], Array]
    exact: Callable[[Sequence[Array], Shape, A], Array]
    attributes: type[A]
    settle: Callable[[Sequence[Shape], A], A] = as_given
    default_out: Callable[[Sequence[Shape], A], Shape] | None = None
    needs: Callable[[Sequence[Shape], Shape, A], Sequence[int]] | None = None
    result: str = "out"
    numbered: str = ""
    computes: bool = False
    more_operands: bool = False
    index_map: Callable[[Sequence[Shape], Shape, A], IndexMap] | None = None
    parts: Callable[[Sequence[Shape], Shape, A], Sequence[Any]] | None = None
    row_parts: Callable[[Sequence[Shape], Shape, A, RowWork], Sequence[Any] | None] | None = None

    def parts_on(
        self, shapes: Sequence[Shape], out: Shape, attributes: A, rows: RowWork
    ) -> Sequence[Any]:
        """Return the parts of a composite for engines that do `rows`; none of another operation."""
        found = self.row_parts(shapes, out, attributes, rows) if self.row_parts else None
        if found is None and self.parts is not None:
            found = self.parts(shapes, out, attributes)
        return found or ()


AnyRow = Row[Any]
ONE_SHAPE = (Operand("shape"),)


def unrounded(
    exact: Callable[[Sequence[Array], Shape, A], Array],
) -> Callable[[Sequence[Array], Shape, A, Rules], Array]:
    """Return the reference of an operation that only moves elements: its exact result."""

    def reference(arrays: Sequence[Array], out: Shape, attributes: A, rules: Rules) -> Array:
        return exact(arrays, out, attributes)

    return reference


def is_integer(shape: Shape) -> bool:
    """Return whether elements are integers; a pred is the integer 0 or 1."""
    return shape.dtype.kind in "iub"


def counted(array: Array) -> Array:
    """Return an array that numbers can be made of: of pred 0 and 1 as u8, any other as it is."""
    return array.astype(np.uint8) if array.dtype == bool else array


def plain(shape: Shape) -> str:
    """Return type and dimensions of a shape without its layout."""
    return f"{shape.element_type}[{','.join(map(str, shape.dims))}]"


def check_gives(source: Shape, element_type: str, dims: tuple[int, ...], out: Shape) -> None:
    """Raise WorkloadError if `out`, the result of `source`, has another type or dimensions."""
    if (out.element_type, out.dims) != (element_type, dims):
        wanted = f"{element_type}[{','.join(map(str, dims))}]"
        raise WorkloadError(f"{plain(source)} gives {wanted}, but out is {plain(out)}")


def first_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Return the shape of the first operand: a `default_out`."""
    return shapes[0]


def of_first_type(
    dims: Callable[[Sequence[Shape], A], tuple[int, ...]],
) -> Callable[[Sequence[Shape], A], Shape]:
    """Return the `default_out` of a result with these dimensions and the first operand's type."""

    def default_out(shapes: Sequence[Shape], attributes: A) -> Shape:
        return Shape(shapes[0].element_type, dims(shapes, attributes))

    return default_out


def gives(
    dims: Callable[[Sequence[Shape], A], tuple[int, ...]],
) -> Callable[[Sequence[Shape], Shape, A], None]:
    """Return the `check` of a result with these dimensions and the first operand's type."""

    def check(shapes: Sequence[Shape], out: Shape, attributes: A) -> None:
        check_gives(shapes[0], shapes[0].element_type, dims(shapes, attributes), out)

    return check
