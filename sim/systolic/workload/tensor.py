"""A tensor: a shape (an XLA shape with its layout), the memory it lives in, and its place there.

Not here: the elements themselves (`data`) and what is computed with them (`graph`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from systolic.layout import Shape

Home = Literal["state_buffer", "dram"]
HOMES: tuple[Home, ...] = get_args(Home)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array with a place to live: shape (type, dimensions, layout) and memory.

    partition, byte: where its tiles begin in the state buffer. byte None: where the compiler likes.
    """

    shape: Shape
    home: Home = "state_buffer"
    partition: int = 0
    byte: int | None = None

    @property
    def has_place(self) -> bool:
        """Whether partition or byte are given."""
        return self.partition > 0 or self.byte is not None

    def __str__(self) -> str:
        return f"{self.shape} in {self.home}"


def parse_shape(text: str) -> Shape:
    """Return the shape an XLA shape text spells, such as ``f32[128,64]``; LayoutError if none."""
    return Shape.parse(text)
