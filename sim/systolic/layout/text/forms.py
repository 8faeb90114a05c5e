"""What a shape's text can spell besides an array: kept to be read and printed, nothing more.

Bounded dimensions (``f32[<=3]``), unknown ones (``?``), tuples, ``token[]``, ``opaque[]`` and
``b(...)`` buffers. A tuple or buffer may hold arrays of known size; what type those have, its type
parameter says (in this package: ``Shape``, which reads text and so is not imported here).
Not here: any arithmetic; only ``Shape`` has a place in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from systolic.layout.layout import Layout

Array = TypeVar("Array")
"""The type of arrays of known size."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A dimension whose size is known only as at most ``limit``, or not at all (None)."""

    limit: int | None

    def __str__(self) -> str:
        return "?" if self.limit is None else f"<={self.limit}"


@dataclass(frozen=True, slots=True)
class DynamicShape:
    """An array with at least one bounded or unknown dimension."""

    element_type: str
    dims: tuple[int | Bound, ...]
    layout: Layout

    def __str__(self) -> str:
        return f"{self.element_type}[{','.join(map(str, self.dims))}]{self.layout}"


@dataclass(frozen=True, slots=True)
class TupleShape(Generic[Array]):
    """Several shapes as one value; every fifth is numbered in print, as XLA does."""

    elements: tuple[Form[Array], ...]

    def __str__(self) -> str:
        parts = [
            (f"/*index={n}*/" if n and n % 5 == 0 else "") + str(element)
            for n, element in enumerate(self.elements)
        ]
        return "(" + ", ".join(parts) + ")"


@dataclass(frozen=True, slots=True)
class NamedShape:
    """``token[]`` or ``opaque[]``: a value without elements."""

    name: str

    def __str__(self) -> str:
        return f"{self.name}[]"


@dataclass(frozen=True, slots=True)
class BufferShape(Generic[Array]):
    """``b(shape)``: an array held by reference."""

    element: Form[Array]

    def __str__(self) -> str:
        return f"b({self.element})"


Form: TypeAlias = Array | DynamicShape | TupleShape[Array] | NamedShape | BufferShape[Array]
