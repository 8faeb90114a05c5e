"""A tensor: a shape (an XLA shape with its layout) and the memory it lives in.

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
    """An array with a place to live: shape (type, dimensions, layout) and memory."""

    shape: Shape
    home: Home = "state_buffer"

    def __str__(self) -> str:
        return f"{self.shape} in {self.home}"


def parse_shape(text: str) -> Shape:
    """Return the shape an XLA shape text spells, such as ``f32[128,64]``; LayoutError if none."""
    return Shape.parse(text)
