"""The places of tensors in DRAM, handed out one after another; none is given back."""

from __future__ import annotations

from systolic.compiler.ir.dram_tensor import whole_bursts
from systolic.compiler.ir.nodes import TensorInDram
from systolic.errors import RoomError
from systolic.hw.spec import Chip
from systolic.layout import Shape


class DramPlaces:
    """Places by name, and the place of each tensor."""

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self._places: dict[str, TensorInDram] = {}
        self._of: dict[str, str] = {}
        self._next_byte = 0

    def places(self) -> tuple[TensorInDram, ...]:
        """Return all places."""
        return tuple(self._places.values())

    def reserve(self, name: str, shape: Shape) -> None:
        """Make a place for a tensor, unless there is a place of that name."""
        if name in self._places:
            return
        size, have = dram_bytes(shape), self._chip.dram.size_bytes
        if self._next_byte + size > have:
            raise RoomError(
                f"dram of {self._chip.name} has no room for {name}: {shape} needs {size} bytes "
                f"beside {self._next_byte} of others, found size_bytes = {have}"
            )
        self._places[name] = TensorInDram(name, shape, self._next_byte, size, self._next_byte)
        self._next_byte += size

    def alias(self, name: str, place: str, shape: Shape) -> None:
        """Add another name for a place, with the same bytes in another shape."""
        held = self._places[place]
        self._places[name] = TensorInDram(name, shape, held.base, dram_bytes(shape), held.start)

    def put(self, tensor: str, place: str) -> None:
        """Note that a tensor lies in a place."""
        self._of[tensor] = place

    def holds(self, tensor: str) -> bool:
        """Return whether the tensor lies in DRAM."""
        return tensor in self._of

    def of(self, tensor: str) -> str:
        """Return the name of the place of a tensor."""
        return self._of[tensor]

    def first_byte(self, name: str) -> int:
        """Return the first byte of a place."""
        return self._places[name].base

    def place(self, name: str) -> Shape:
        """Return the shape of a place that is no part of another one."""
        shape = self._places[name].shape
        assert isinstance(shape, Shape)
        return shape

    def shape(self, tensor: str) -> Shape:
        """Return the shape, with layout, of the tensor as it lies in DRAM."""
        return self.place(self._of[tensor])


def dram_bytes(shape: Shape) -> int:
    """Return the bytes of a tensor in DRAM, in whole bursts."""
    return whole_bursts(shape.size_bytes())
