"""The bytes of the state buffer, the result buffer and DRAM, read and written by access patterns.

Storage only: no time, no ports. Both engines keep their values in a `Memory`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.errors import SimulationError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Program
from systolic.isa.effects import reads, writes

LARGEST_BYTES = 4 << 30
"""More than this for one buffer is refused instead of exhausting the host's memory."""

PAGE_BYTES, PAD_BYTES = 4096, 192
"""Partitions a whole number of pages apart would all meet in the same sets of the host's cache."""


@dataclass(frozen=True, eq=False)
class Image:
    """Initial contents of a region: `values` has shape [partitions, elements] and its type."""

    access: Access
    values: npt.NDArray[Any]


class Memory:
    """All memories of a chip, zero at first, then the images. DRAM is as large as it is used.

    A buffer takes no memory of the host before it is looked at or written: for times only, none is.

    dram: the memory that has the DRAM, of a core of several; None: this one has it.
    """

    def __init__(
        self,
        chip: Chip,
        program: Program,
        images: Iterable[Image] = (),
        dram: Memory | None = None,
    ) -> None:
        self._chip, self._program, self._images = chip, program, tuple(images)
        self._dram = dram
        self._bytes: dict[Buffer, npt.NDArray[np.uint8]] = {}
        for image in self._images:
            self.write(image.access, image.values)

    def _storage(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        """Return the bytes of a buffer, [partitions, bytes], which are zero the first time."""
        if buffer not in self._bytes:
            partitions, size = self._size(buffer)
            self._bytes[buffer] = _zeros(buffer.value, partitions, size)
        return self._bytes[buffer]

    def _size(self, buffer: Buffer) -> tuple[int, int]:
        """Return the partitions of a buffer and the bytes of each that are needed."""
        state, result = self._chip.state_buffer, self._chip.result_buffer
        match buffer:
            case Buffer.DRAM:
                return 1, _extent(self._program, self._images, buffer)
            case Buffer.STATE:
                partitions, size = state.partitions, state.bytes_per_partition
            case Buffer.RESULT:
                partitions, size = self._chip.pe_array.cols, result.bytes_per_partition
        if partitions * size > LARGEST_BYTES:  # then only the bytes that are used, as in DRAM
            size = min(size, _extent(self._program, self._images, buffer))
        return partitions, size

    def view(self, access: Access) -> npt.NDArray[Any]:
        """Return a writable view [partitions, count, count, ...] of the region, in its type."""
        low, high = access.span
        if access.buffer is Buffer.DRAM:
            if self._dram is not None:
                return self._dram.view(access)
            self._reach(high)
        storage = self._storage(access.buffer)
        if low < 0 or high > storage.shape[1]:
            raise SimulationError(f"access outside its buffer: {access}")
        dtype = data_type(access.dtype).numpy
        size = access.element_bytes
        if dtype.itemsize > 1 and access.start % dtype.itemsize:
            raise SimulationError(f"access not aligned: {access}")
        return np.ndarray(
            shape=(access.partitions, *(count for _, count in access.pattern)),
            dtype=dtype,
            buffer=storage.base if storage.base is not None else storage,
            offset=access.partition * storage.strides[0] + access.start,
            strides=(storage.strides[0], *(step * size for step, _ in access.pattern)),
        )

    def _reach(self, size_bytes: int) -> None:
        """Extend DRAM with zeros; it is only as large as it has been used."""
        if self._dram is not None:
            self._dram._reach(size_bytes)
            return
        storage = self._storage(Buffer.DRAM)
        missing = min(size_bytes, self._chip.dram.size_bytes) - storage.shape[1]
        if missing > 0:
            rest = _zeros("dram", 1, missing)
            self._bytes[Buffer.DRAM] = np.concatenate([storage, rest], axis=1)

    def read(self, access: Access) -> npt.NDArray[Any]:
        """Return a copy of the region, [partitions, elements]."""
        return self.view(access).copy().reshape(access.partitions, access.elements)

    def pick(self, access: Access, columns: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return elements of the access's partitions, [partitions, elements].

        columns: the element indices in each partition, of the same shape.
        """
        storage, dtype = self._storage(access.buffer), data_type(access.dtype).numpy
        size = access.element_bytes
        rows = np.arange(*access.lanes)[:, None, None]
        found = storage[rows, columns[:, :, None] * size + np.arange(dtype.itemsize)]
        elements: npt.NDArray[Any] = found.view(dtype)[:, :, 0]
        return elements

    def write(self, access: Access, values: npt.NDArray[Any]) -> None:
        """Store values [partitions, elements], already of the access's type."""
        view = self.view(access)
        view[...] = values.reshape(view.shape)

    def move(self, source: Access, target: Access) -> None:
        """Copy element by element, in the order of both accesses; both are of one type."""
        for access in (source, target):
            if access.buffer is Buffer.DRAM:
                self._reach(access.span.stop)
        into, out_of = self.view(target).squeeze(), self.view(source).squeeze()
        if into.shape == out_of.shape:
            into[...] = out_of
        else:
            self.write(target, self.read(source))

    def turn(self, source: Access, target: Access) -> None:
        """Copy a matrix, turned: element c of row r goes to element r of partition c."""
        self.write(target, self.read(source).reshape(target.elements, target.partitions).T)

    def bytes_of(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        """Return the raw bytes of a buffer, [partitions, bytes] (a view)."""
        if buffer is Buffer.DRAM and self._dram is not None:
            return self._dram.bytes_of(buffer)
        return self._storage(buffer)


QUIET_NANS = {"f32": 0x7FC00000, "bf16": 0x7FC0, "f16": 0x7E00, "f8e4m3fn": 0x7F, "f8e5m2": 0x7E}
"""The bits of the one NaN that a cast to the type makes: quiet, with sign 0."""

EXACT_IN_SINGLE = 1 << 24
"""Integers up to this have no more bits than a float32."""


def cast(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Return the values in the named type; values of that type keep their bits.

    To a float type every value is rounded once, to nearest even, and a NaN is the type's quiet NaN
    with sign 0, whatever the host makes of it. To an integer type a float is truncated towards
    zero, saturating, NaN to 0, and an integer wraps.
    """
    target = data_type(dtype).numpy
    if values.dtype == target:
        return values
    with np.errstate(all="ignore"):
        if data_type(dtype).accumulator == "s32":
            return _to_integer(values, target)
        if values.dtype == np.int32 and dtype != "f32":
            values = _with_sticky_bit(values)
        found = values.astype(target)
        missing = np.isnan(found)
        if missing.any():
            found.view(f"u{target.itemsize}")[missing] = QUIET_NANS[dtype]
        return found


def _to_integer(values: npt.NDArray[Any], target: np.dtype[Any]) -> npt.NDArray[Any]:
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(target)
    bounds = np.iinfo(target)
    wide = np.nan_to_num(values.astype(np.float64), nan=0.0)
    return np.clip(wide, bounds.min, bounds.max).astype(target)


def _with_sticky_bit(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers that a float32 holds and that round to a shorter type as `values` do.

    The host goes to such types by way of float32, which would round twice. An integer beyond 2^24
    has at least 17 bits behind the 8 that bf16 keeps, and the last 8 of them count only as a
    whole, as zero or not: so one bit stands for all of them.
    """
    large = (values > EXACT_IN_SINGLE) | (values < -EXACT_IN_SINGLE)
    if not large.any():
        return values
    sticky = ((values & 0xFF) != 0).astype(values.dtype) << 7
    return np.where(large, (values & ~0xFF) | sticky, values)


def _extent(program: Program, images: tuple[Image, ...], buffer: Buffer) -> int:
    """Return how many bytes of each partition of a buffer are used, counted from its first."""
    accesses = [image.access for image in images]
    accesses += [a for i in program.instructions for a in (*reads(i), *writes(i))]
    return max((a.span.stop for a in accesses if a.buffer is buffer), default=0)


def _zeros(name: str, partitions: int, size_bytes: int) -> npt.NDArray[np.uint8]:
    if partitions * size_bytes > LARGEST_BYTES:
        raise SimulationError(
            f"{name}: {partitions} partitions of {size_bytes} bytes are "
            f"{partitions * size_bytes / 2**30:.1f} GiB; this simulator holds at most "
            f"{LARGEST_BYTES >> 30} GiB per buffer"
        )
    pad = PAD_BYTES if partitions > 1 and size_bytes % PAGE_BYTES == 0 else 0
    return np.zeros((partitions, size_bytes + pad), np.uint8)[:, :size_bytes]
