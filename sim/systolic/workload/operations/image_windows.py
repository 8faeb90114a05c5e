"""Windows over the pixels of images: their sizes, and what does not go together.

Images are [images, height, width, channels], in any layout: `{3,2,1,0}` is NHWC in memory,
`{2,1,3,0}` NCHW.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.row import plain

PixelNumbers = Annotated[tuple[int, ...], Field(strict=False)]
Stride = Annotated[
    PixelNumbers, Field(description="pixels from window to window, [down, across] (default: 1)")
]
Padding = Annotated[
    PixelNumbers,
    Field(description="pixels around an image, [above, below, left, right] (default: 0)"),
]
Dilation = Annotated[
    PixelNumbers, Field(description="distance of a window's pixels, [down, across] (default: 1)")
]
"""Where windows lie: the keys of every operation that has some."""


@dataclass(frozen=True, slots=True)
class ImageWindows:
    """Windows of `size` pixels; all pairs are (down, across).

    padding: pixels above, below, left and right of an image.
    """

    size: tuple[int, int]
    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    dilation: tuple[int, ...] = (1, 1)

    def padded(self, source: Shape) -> tuple[int, int]:
        """Return height and width of an image with its padding."""
        (top, bottom, left, right), (_, height, width, _) = self.padding, source.dims
        return top + height + bottom, left + width + right

    @property
    def extents(self) -> tuple[int, int]:
        """Return how many pixels a window reaches over, those between its own included."""
        down, across = (
            (size - 1) * apart + 1 for size, apart in zip(self.size, self.dilation, strict=True)
        )
        return down, across

    def made(self, source: Shape) -> tuple[int, int]:
        """Return how many windows there are down and across an image."""
        down, across = (
            (image - extent) // stride + 1
            for image, extent, stride in zip(
                self.padded(source), self.extents, self.stride, strict=True
            )
        )
        return down, across

    def taps(self) -> list[tuple[int, int]]:
        """Return the pixels of a window, in row-major order, counted from its first."""
        down, across = self.dilation
        return [(y * down, x * across) for y in range(self.size[0]) for x in range(self.size[1])]

    def check(self, source: Shape) -> None:
        """Raise WorkloadError unless the windows fit into the images."""
        _require_numbers("stride", self.stride, 2, 1, "down and across")
        _require_numbers("padding", self.padding, 4, 0, "above, below, left and right")
        _require_numbers("dilation", self.dilation, 2, 1, "down and across")
        padded, extents = self.padded(source), self.extents
        if any(extent > size for extent, size in zip(extents, padded, strict=True)):
            raise WorkloadError(
                f"a window of {_product(self.size)} with dilation {_product(self.dilation)} "
                f"reaches over {_product(extents)} pixels, more than the {_product(padded)} of "
                f"{plain(source)} with its padding"
            )


def _require_numbers(key: str, given: Sequence[int], count: int, least: int, names: str) -> None:
    if len(given) != count or min(given) < least:
        raise WorkloadError(
            f"{key}: needs {count} numbers of at least {least} ({names}), found {list(given)}"
        )


def _product(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))
