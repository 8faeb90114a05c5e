"""A shape: element type, dimensions and layout.

Sizes are computed in Python integers, so a shape of any size costs nothing until data are packed.
Not here: data (``packing``), the text grammar (``text``), the formats that a TPU uses
(``tpu_formats``).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from systolic.layout import index as index_arithmetic
from systolic.layout.element_types import ElementType, element_type
from systolic.layout.errors import LayoutError
from systolic.layout.layout import Layout
from systolic.layout.steps import TileStep, ordered_dims, tile_steps
from systolic.layout.text import forms, read
from systolic.layout.tile import COMBINE, INT64_MAX, Tile


@dataclass(frozen=True, slots=True, init=False)
class Shape:
    """An array's element type name, logical dimensions and layout (seed 001; default row major).

    Raises LayoutError if type, dimensions and layout do not fit, or if the padded array would be
    2**63 bytes or more.
    """

    element_type: str
    dims: tuple[int, ...]
    layout: Layout

    def __init__(
        self, element_type_name: str, dims: Sequence[int], layout: Layout | None = None
    ) -> None:
        object.__setattr__(self, "element_type", element_type(element_type_name).name)
        object.__setattr__(self, "dims", tuple(operator.index(size) for size in dims))
        chosen = Layout.row_major(len(self.dims)) if layout is None else layout
        object.__setattr__(self, "layout", chosen)
        _check(self)

    @staticmethod
    def parse(text: str) -> Shape:
        """Return the array shape that ``text`` spells; ShapeError says what is wrong and where."""
        return read.parse_array(text, Shape)

    def __str__(self) -> str:
        layout = str(self.layout) if self.dims or self.layout.attributes() else ""
        return f"{self.element_type}[{','.join(map(str, self.dims))}]{layout}"

    # -- what it is -------------------------------------------------------------------------------

    @property
    def type(self) -> ElementType:
        """The element type: a row of the table of types."""
        return element_type(self.element_type)

    @property
    def dtype(self) -> np.dtype[Any]:
        """How numpy holds one element."""
        return self.type.dtype

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def true_rank(self) -> int:
        """The number of dimensions larger than 1 (seed 001, terminology)."""
        return sum(size > 1 for size in self.dims)

    @property
    def element_bits(self) -> int:
        """Bits one element takes in memory: ``E(n)`` if the layout has it, else whole bytes."""
        return self.layout.element_bits or self.type.storage_bits

    def dimension_number(self, number: int) -> int:
        """Return a dimension number counted from the front; -1 is the last (seed 001)."""
        if not -self.rank <= number < self.rank:
            raise LayoutError(f"{self} has no dimension {number}: it has {self.rank}")
        return number % self.rank

    def dimension(self, number: int) -> int:
        """Return the size of a dimension; negative numbers count from the end."""
        return self.dims[self.dimension_number(number)]

    def with_layout(self, layout: Layout | None) -> Shape:
        """Return the same array in another layout (``None``: plain row major)."""
        return Shape(self.element_type, self.dims, layout)

    def with_padding(self, widths: Sequence[int], value: float = 0) -> Shape:
        """Return the same array padded to these widths before it is tiled (seed 001).

        ``value`` is what the padding holds. LayoutError if a width is less than its dimension, or
        the element type cannot hold the value.
        """
        return self.with_layout(
            replace(self.layout, padded_dimensions=tuple(widths), padding_value=value)
        )

    @property
    def holds_padding(self) -> bool:
        """Whether memory must hold a legacy padding value that is not zero."""
        padded = self.layout.padded_dimensions not in (None, self.dims)
        return padded and self.layout.padding_value != 0

    def with_tiles(self, *tiles: Tile | Sequence[int]) -> Shape:
        """Return the same array, same order of dimensions, in these tiles."""
        chosen = tuple(tile if isinstance(tile, Tile) else Tile(tile) for tile in tiles)
        return self.with_layout(replace(self.layout, tiles=chosen))

    # -- sizes ------------------------------------------------------------------------------------

    def steps(self) -> tuple[TileStep, ...]:
        """Return what each tile does to the physical dimensions."""
        return _steps(self.dims, self.layout)

    def physical_dims(self) -> tuple[int, ...]:
        """Return the dimensions in memory, major to minor, after all tiles."""
        steps = self.steps()
        return steps[-1].after if steps else ordered_dims(self.dims, self.layout)

    def num_elements(self) -> int:
        """Return the number of elements, padding not counted."""
        return math.prod(self.dims)

    def padded_elements(self) -> int:
        """Return the number of element places in memory: all tiles, rounded up to ``L(n)``."""
        return self.layout.places(math.prod(self.physical_dims()))

    def size_bytes(self) -> int:
        """Return the bytes the array takes in memory, padding of every level counted."""
        return -(-self.padded_elements() * self.element_bits // 8)

    def padding_share(self) -> float:
        """Return the part of the memory that is padding, 0 to 1 (0 for an empty buffer)."""
        places = self.padded_elements()
        return 1 - self.num_elements() / places if places else 0.0

    def xla_array_size(self) -> int | None:
        """Return the bytes that XLA's ``ArraySize`` reports; None if the first tile has ``*``.

        XLA counts the first tile only (and ``L(n)`` only if there is a tile). So this is less than
        ``size_bytes()`` if a later tile pads. Never allocate memory by it.
        """
        if not self.layout.tiles:
            return -(-self.num_elements() * self.element_bits // 8)
        first = self.layout.tiles[0].dims
        if COMBINE in first:
            return None
        dims = [self.dims[number] for number in self.layout.major_to_minor]
        dims = [1] * (len(first) - len(dims)) + dims
        sizes = (1,) * (len(dims) - len(first)) + first
        places = math.prod(-(-d // t) * t for d, t in zip(dims, sizes, strict=True))
        places = -(-places // self.layout.tail_align) * self.layout.tail_align
        return -(-places * self.element_bits // 8)

    # -- where an element lies --------------------------------------------------------------------

    @overload
    def linear_index(self, index: Sequence[int]) -> int: ...
    @overload
    def linear_index(self, index: Sequence[NDArray[Any]]) -> NDArray[np.int64]: ...
    def linear_index(
        self, index: Sequence[int] | Sequence[NDArray[Any]]
    ) -> int | NDArray[np.int64]:
        """Return the element offset in memory of an index, or of arrays of indices.

        ``index`` holds one entry for each logical dimension: integers, or integer arrays that
        broadcast together. Source: linear_index_with_tile of seed 002, level by level.
        """
        found: int | NDArray[np.int64] = index_arithmetic.linear_index(
            self.dims, self.layout, self.steps(), index
        )
        return found

    def from_linear_index(self, offset: int) -> tuple[int, ...] | None:
        """Return the index of the element at ``offset`` in memory, or None if it is padding."""
        place = operator.index(offset)
        if not 0 <= place < self.padded_elements():
            raise LayoutError(
                f"offset {place} is out of range: there are {self.padded_elements()} places"
            )
        found, is_element = self.from_linear_indices(np.asarray(place))
        return tuple(int(part) for part in found) if bool(is_element) else None

    def from_linear_indices(
        self, offsets: NDArray[Any]
    ) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.bool_]]:
        """Return an array per dimension of the indices at ``offsets``, and which are elements.

        Where the mask is false, the place is padding and its index means nothing.
        """
        places = self.padded_elements()
        return index_arithmetic.from_linear_indices(
            self.dims, self.layout, self.steps(), offsets, places
        )

    def permutation(self) -> NDArray[np.int64]:
        """Return the row-major number of the element at each offset in memory, -1 for padding.

        Meant for small shapes: it allocates 8 bytes for each place.
        """
        found, is_element = self.from_linear_indices(np.arange(self.padded_elements()))
        number: NDArray[np.int64] = np.zeros(is_element.shape, np.int64)
        for part, size in zip(found, self.dims, strict=True):
            number = number * size + part
        return np.where(is_element, number, -1)


ShapeForm: TypeAlias = forms.Form[Shape]
"""The kinds of shapes that a text can spell; only a ``Shape`` has a place in memory."""


def parse_form(text: str) -> ShapeForm:
    """Return the form that ``text`` spells: an array, a dynamic array, a tuple, a token, ..."""
    return read.parse_form(text, Shape)


@lru_cache(maxsize=1024)
def _steps(dims: tuple[int, ...], layout: Layout) -> tuple[TileStep, ...]:
    return tile_steps(dims, layout)


def _check(shape: Shape) -> None:
    for size in shape.dims:
        if not 0 <= size <= INT64_MAX:
            raise LayoutError(f"a dimension must be from 0 to 2**63 - 1, found {size}")
    if shape.layout.rank != shape.rank:
        raise LayoutError(
            f"minor_to_major has {shape.layout.rank} entries, "
            f"but the shape has {shape.rank} dimensions"
        )
    _check_widths(shape.dims, shape.layout.padded_dimensions)
    _check_padding_value(shape)
    _check_bytes(shape)


def _check_widths(dims: tuple[int, ...], widths: tuple[int, ...] | None) -> None:
    for number, (size, width) in enumerate(zip(dims, widths or dims, strict=True)):
        if not size <= width <= INT64_MAX:
            raise LayoutError(
                f"padded_dimensions must be at least the dimensions, "
                f"found {width} for dimension {number} of size {size}"
            )


def _check_padding_value(shape: Shape) -> None:
    """Raise LayoutError for a padding value that the element type cannot hold."""
    value = shape.layout.padding_value
    limits = shape.type.integer_range
    if shape.layout.padded_dimensions is None or limits is None:
        return
    low, high = limits
    if not (low <= value <= high and value == int(value)):
        raise LayoutError(
            f"padding_value must be a whole number from {low} to {high} for {shape.element_type}, "
            f"found {value:g}"
        )


def _check_bytes(shape: Shape) -> None:
    for what, sizes in (("array", shape.dims), ("padded array", shape.physical_dims())):
        elements = 1
        for size in sizes:
            # Zeros count as 1: numpy refuses an empty array whose other sizes overflow, too.
            elements *= max(size, 1)
            if elements > INT64_MAX:
                raise LayoutError(f"the {what} overflows 2**63 - 1 {_unit(shape)}")
        if elements * shape.element_bits > 8 * INT64_MAX:
            raise LayoutError(f"the {what} overflows 2**63 - 1 bytes")
    if max(shape.size_bytes(), shape.padded_elements()) > INT64_MAX:
        raise LayoutError(f"the array rounded up to L({shape.layout.tail_align}) overflows int64")


def _unit(shape: Shape) -> str:
    return "elements" if shape.element_bits < 8 else "bytes"
