"""Placement: where the elements of a tensor lie in a buffer of the accelerator.

`systolic layout --buffer` uses it through ``conventions``, and Python callers do.

The physical dimensions of a tiled shape are split in two: some give the partition of an element,
the others, in row-major order, its address inside the partition. Not here: which memory uses which
split (``conventions``), and the contents of a buffer over time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from systolic.arrays import Integers
from systolic.layout.errors import LayoutError
from systolic.layout.packing.memory import one_per_item, packed_bits
from systolic.layout.packing.packing import pack, tiled_view, unpack
from systolic.layout.packing.subbyte import pack_bits, unpack_bits
from systolic.layout.placement.buffer import BufferGeometry
from systolic.layout.shape import Shape

IndexArrays = Sequence[NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Placement:
    """A tiled ``shape`` in a ``buffer``, from ``base_partition`` and ``base_byte`` on.

    ``partition_axes`` are the physical dimensions (by their number in ``shape.physical_dims()``)
    that give the partition; the others give the address. Addresses count elements; bytes count from
    the start of the partition. Raises LayoutError if the tensor does not fit.
    """

    shape: Shape
    buffer: BufferGeometry
    partition_axes: tuple[int, ...]
    base_partition: int = 0
    base_byte: int = 0

    def __post_init__(self) -> None:
        if self.base_partition < 0 or self.base_byte < 0:
            raise LayoutError(
                f"a placement begins at partition and byte 0 or later, found "
                f"partition {self.base_partition}, byte {self.base_byte}"
            )
        rank = len(self.shape.physical_dims())
        axes = self.partition_axes
        if len(set(axes)) != len(axes) or any(not 0 <= axis < rank for axis in axes):
            raise LayoutError(
                f"partition_axes must be different physical dimensions of "
                f"{self.shape} (0 to {rank - 1}), found {axes}"
            )
        self._check_room(
            "partitions", self.base_partition + self.partitions_used, self.buffer.partitions
        )
        self._check_room(
            "bytes per partition",
            self.base_byte + self.bytes_per_partition_used,
            self.buffer.bytes_per_partition,
        )

    def _check_room(self, what: str, needed: int, there: int) -> None:
        if needed > there:
            raise LayoutError(
                f"{self.shape} needs {needed} {what} of {self.buffer.name}, which has {there}"
            )

    # -- sizes ------------------------------------------------------------------------------------

    @property
    def address_axes(self) -> tuple[int, ...]:
        """The physical dimensions that make the address, the slowest first."""
        rank = len(self.shape.physical_dims())
        return tuple(axis for axis in range(rank) if axis not in self.partition_axes)

    @property
    def partitions_used(self) -> int:
        """How many partitions the tiles span, ragged tiles included."""
        dims = self.shape.physical_dims()
        return math.prod(dims[axis] for axis in self.partition_axes)

    @property
    def elements_per_partition(self) -> int:
        """Element places in each partition, padding included."""
        if not self.partition_axes:
            return self.shape.padded_elements()
        dims = self.shape.physical_dims()
        return math.prod(dims[axis] for axis in self.address_axes)

    @property
    def bytes_per_partition_used(self) -> int:
        """Bytes taken in each partition."""
        return -(-self.elements_per_partition * self.shape.element_bits // 8)

    @property
    def size_bytes(self) -> int:
        """Bytes taken over all partitions."""
        return self.partitions_used * self.bytes_per_partition_used

    # -- where an element is ----------------------------------------------------------------------

    @overload
    def partition_of(self, index: Sequence[int]) -> int: ...
    @overload
    def partition_of(self, index: IndexArrays) -> Integers: ...
    def partition_of(self, index: Any) -> Any:
        """Return the partition of an index, or of arrays of indices (as ``linear_index``)."""
        return self.base_partition + self._along(index, self.partition_axes)

    @overload
    def address_of(self, index: Sequence[int]) -> int: ...
    @overload
    def address_of(self, index: IndexArrays) -> Integers: ...
    def address_of(self, index: Any) -> Any:
        """Return the address inside the partition, in elements from the placement's beginning."""
        return self._along(index, self.address_axes)

    @overload
    def byte_of(self, index: Sequence[int]) -> int: ...
    @overload
    def byte_of(self, index: IndexArrays) -> Integers: ...
    def byte_of(self, index: Any) -> Any:
        """Return the byte inside the partition where the element begins."""
        return self.base_byte + self.address_of(index) * self.shape.element_bits // 8

    @overload
    def bit_of(self, index: Sequence[int]) -> int: ...
    @overload
    def bit_of(self, index: IndexArrays) -> Integers: ...
    def bit_of(self, index: Any) -> Any:
        """Return the lowest bit of that byte that belongs to the element (0 for whole bytes)."""
        return self.address_of(index) * self.shape.element_bits % 8

    @overload
    def bank_of(self, index: Sequence[int]) -> int: ...
    @overload
    def bank_of(self, index: IndexArrays) -> Integers: ...
    def bank_of(self, index: Any) -> Any:
        """Return the bank: the byte divided by the bytes of a bank."""
        return self.byte_of(index) // self.buffer.bank_bytes

    def element_at(self, partition: int, byte: int) -> tuple[int, ...] | None:
        """Return the index of the element that begins at a partition and byte, else None.

        None for padding, for bytes outside the placement and bytes inside an element.
        """
        bits = (byte - self.base_byte) * 8
        place, rest = divmod(bits, self.shape.element_bits)
        inside = partition - self.base_partition
        if rest or not (
            0 <= inside < self.partitions_used and 0 <= place < self.elements_per_partition
        ):
            return None
        return self.shape.from_linear_index(self._offset(inside, place))

    def _along(self, index: Any, axes: tuple[int, ...]) -> Any:
        """Return the row-major number of an element along some of the physical dimensions."""
        dims = self.shape.physical_dims()
        offset = self.shape.linear_index(index)
        if axes == tuple(range(len(dims))):
            return offset
        number: Any = offset * 0
        for axis in axes:
            inner = math.prod(dims[axis + 1 :])
            number = number * dims[axis] + offset // inner % dims[axis]
        return number

    def _offset(self, partition: int, address: int) -> int:
        """Return the linear index at a partition and address, both counted from the placement."""
        if not self.partition_axes:
            return address
        dims = self.shape.physical_dims()
        offset = 0
        for axes, number in ((self.partition_axes, partition), (self.address_axes, address)):
            for axis in reversed(axes):
                number, place = divmod(number, dims[axis])
                offset += place * math.prod(dims[axis + 1 :])
        return offset

    # -- data -------------------------------------------------------------------------------------

    def image(self, array: NDArray[Any], fill: Any = 0) -> NDArray[np.uint8]:
        """Return the bytes in the buffer: an array (partitions used, bytes used in each).

        ``array`` has the shape's dims and dtype; padding holds ``fill``.
        """
        bits = packed_bits(self.shape)
        if not self.partition_axes:
            return pack(array, self.shape, fill, copy=True).view(np.uint8).reshape(1, -1)
        items = pack(array, self._items, fill)
        dims = tiled_view(items, self._items)
        rows = dims.transpose(self.partition_axes + self.address_axes)
        flat = np.ascontiguousarray(rows).reshape(self.partitions_used, -1)
        if bits:
            return self._squeezed(flat, bits)
        return flat.view(np.uint8).reshape(self.partitions_used, -1)

    def array(self, image: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the tensor that lies in an image as ``image()`` makes it."""
        wanted = (self.partitions_used, self.bytes_per_partition_used)
        if image.shape != wanted or image.dtype != np.uint8:
            raise LayoutError(
                f"an image of {self.shape} in {self.buffer.name} is uint8 {wanted}, "
                f"found {image.dtype} {image.shape}"
            )
        memory = np.ascontiguousarray(image)
        if not self.partition_axes:
            return unpack(memory.reshape(-1), self.shape, copy=True)
        order = self.partition_axes + self.address_axes
        dims = self.shape.physical_dims()
        rows = self._widened(memory).reshape([dims[axis] for axis in order])
        items = np.ascontiguousarray(rows.transpose(np.argsort(order))).reshape(-1)
        return unpack(items, self._items, copy=True)

    @property
    def _items(self) -> Shape:
        """The shape with one element in each item, before bits are squeezed together."""
        return one_per_item(self.shape)

    def _squeezed(self, rows: NDArray[Any], bits: int) -> NDArray[np.uint8]:
        per_byte = 8 // bits
        short = -rows.shape[1] % per_byte
        padded = np.pad(rows.view(np.uint8), ((0, 0), (0, short)))
        return pack_bits(padded.reshape(-1), bits).reshape(rows.shape[0], -1)

    def _widened(self, memory: NDArray[np.uint8]) -> NDArray[Any]:
        bits = packed_bits(self.shape)
        if not bits:
            return memory.view(self.shape.dtype)
        count = memory.size * 8 // bits
        items = unpack_bits(memory.reshape(-1), bits, count, self.shape.type)
        return items.reshape(memory.shape[0], -1)[:, : self.elements_per_partition]
