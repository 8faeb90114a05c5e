"""The kinds of shapes besides arrays that a text can spell; they are only read and printed.

They are arrays with bounded (``f32[<=3]``) or unknown (``?``) dimensions, tuples, ``token[]``,
``opaque[]`` and ``b(...)`` buffers. A tuple or buffer may hold arrays of known size. Their type is
a type parameter here, because ``Shape`` reads text and so cannot be imported. Not here: any
arithmetic; only ``Shape`` has a place in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from systolic.layout.layout import Layout

ArrayForm = TypeVar("ArrayForm")
"""The type of arrays of known size."""


@dataclass(frozen=True, slots=True)
class DynamicDimension:
    """The upper limit of a dimension if nothing else is known of it; None: not even that."""

    limit: int | None

    def __str__(self) -> str:
        return "?" if self.limit is None else f"<={self.limit}"


@dataclass(frozen=True, slots=True)
class DynamicShape:
    """An array with at least one bounded or unknown dimension."""

    element_type: str
    dims: tuple[int | DynamicDimension, ...]
    layout: Layout

    def __str__(self) -> str:
        return f"{self.element_type}[{','.join(map(str, self.dims))}]{self.layout}"


@dataclass(frozen=True, slots=True)
class TupleShape(Generic[ArrayForm]):
    """Several shapes as one value; as in XLA, every fifth is printed with its number."""

    elements: tuple[Form[ArrayForm], ...]

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
class BufferShape(Generic[ArrayForm]):
    """``b(shape)``: an array held by reference."""

    element: Form[ArrayForm]

    def __str__(self) -> str:
        return f"b({self.element})"


Form: TypeAlias = (
    ArrayForm | DynamicShape | TupleShape[ArrayForm] | NamedShape | BufferShape[ArrayForm]
)
