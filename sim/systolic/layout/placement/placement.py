"""Placement: where the elements of a tensor lie in a buffer of the accelerator.

Not here: which physical dimensions give the partition (``rule`` for the state buffer,
``conventions`` for each memory), and the contents of a buffer over time.
"""

from __future__ import annotations

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
from systolic.layout.placement.rule import Spreading
from systolic.layout.shape import Shape

IndexArrays = Sequence[NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Placement:
    """A ``shape`` in a ``buffer``, from ``base_partition`` and ``base_byte`` on.

    ``spreading`` says which physical dimensions of the shape give the partition; the others give
    the address. Addresses count elements; bytes count from the start of the partition. Raises
    LayoutError if the tensor does not fit.
    """

    shape: Shape
    buffer: BufferGeometry
    spreading: Spreading
    base_partition: int = 0
    base_byte: int = 0

    def __post_init__(self) -> None:
        if self.base_partition < 0 or self.base_byte < 0:
            raise LayoutError(
                f"a placement begins at partition and byte 0 or later, found "
                f"partition {self.base_partition}, byte {self.base_byte}"
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
    def partitions_used(self) -> int:
        """How many partitions the tiles span, ragged tiles included."""
        return self.spreading.partitions

    @property
    def elements_per_partition(self) -> int:
        """Element places in each partition, padding included."""
        return self.spreading.elements if self._spread else self.shape.padded_elements()

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
        return self.base_partition + self._place(index)[0]

    @overload
    def address_of(self, index: Sequence[int]) -> int: ...
    @overload
    def address_of(self, index: IndexArrays) -> Integers: ...
    def address_of(self, index: Any) -> Any:
        """Return the address inside the partition, in elements from the placement's beginning."""
        return self._place(index)[1]

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
        offset = self.spreading.offset(inside, place) if self._spread else place
        return None if offset is None else self.shape.from_linear_index(offset)

    @property
    def _spread(self) -> bool:
        return self.spreading.row is not None or self.spreading.grid is not None

    def _place(self, index: Any) -> tuple[Any, Any]:
        """Return partition and address of an element, both counted from the placement."""
        offset = self.shape.linear_index(index)
        return self.spreading.place(offset) if self._spread else (offset * 0, offset)

    # -- data -------------------------------------------------------------------------------------

    def image(self, array: NDArray[Any], fill: Any = 0) -> NDArray[np.uint8]:
        """Return the bytes in the buffer: an array (partitions used, bytes used in each).

        ``array`` has the shape's dims and dtype; padding holds ``fill``.
        """
        bits = packed_bits(self.shape)
        if not self._spread:
            return pack(array, self.shape, fill, copy=True).view(np.uint8).reshape(1, -1)
        items = pack(array, self._items, fill)
        flat = self._by_partition(tiled_view(items, self._items), fill)
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
        if not self._spread:
            return unpack(memory.reshape(-1), self.shape, copy=True)
        items = np.ascontiguousarray(self._by_dimension(self._widened(memory))).reshape(-1)
        return unpack(items, self._items, copy=True)

    def _by_partition(self, tiles: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Return items in their physical dimensions as an array (partitions, addresses)."""
        grid, levels = self.spreading.grid, self._levels
        if grid is not None:
            missing = -tiles.shape[grid] % levels
            width = [(0, missing if axis == grid else 0) for axis in range(tiles.ndim)]
            padded = np.pad(tiles, width, constant_values=fill) if missing else tiles
            tiles = padded.reshape(self._digits())
        flat = np.ascontiguousarray(tiles.transpose(self._order()))
        return flat.reshape(self.partitions_used, self.elements_per_partition)

    def _by_dimension(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return an array (partitions, addresses) in the physical dimensions."""
        order, digits = self._order(), self._digits()
        tiles = rows.reshape([digits[axis] for axis in order]).transpose(np.argsort(order))
        grid = self.spreading.grid
        if grid is None:
            return tiles
        dims = self.spreading.dims
        whole = tiles.reshape([*dims[:grid], -1, *dims[grid + 1 :]])
        return whole[(slice(None),) * grid + (slice(0, dims[grid]),)]

    @property
    def _levels(self) -> int:
        """How many tiles stand on one another: no more than there are."""
        return max(1, self.partitions_used // self.spreading.rows)

    def _digits(self) -> list[int]:
        """Return the physical dimensions; the grid's dimension is split into address and level."""
        dims, grid = self.spreading.dims, self.spreading.grid
        if grid is None:
            return list(dims)
        return [*dims[:grid], -(-dims[grid] // self._levels), self._levels, *dims[grid + 1 :]]

    def _order(self) -> list[int]:
        """Return the order of the digits: the partition's, the slowest first, and the address's."""
        row, grid = self.spreading.row, self.spreading.grid
        if row is not None and grid is not None and row > grid:
            row += 1
        first = ([] if grid is None else [grid + 1]) + ([] if row is None else [row])
        return [*first, *(axis for axis in range(len(self._digits())) if axis not in first)]

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
