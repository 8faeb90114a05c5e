"""Draw the pictures of docs/layouts.md: ``python docs/pictures/layout_pictures.py``."""

from __future__ import annotations

from pathlib import Path

from systolic.layout import Shape, decompose
from systolic.report.layout_picture import save_layout_picture

HERE = Path(__file__).parent

PICTURES = {
    "figure_1": "f32[3,5]{1,0:T(2,2)}",
    "figure_2": "bf16[4,8]{1,0:T(2,4)(2,1)}",
    "column_major": "f32[3,5]{0,1}",
    "across_tiles": "f32[8,8]{1,0:T(2,4)(2,1,1,1)}",
    "combined": "f32[2,3,6]{2,1,0:T(*,2,3)}",
    "permuted": "bf16[8,5]{0,1:T(4,4)(2,1)}",
}


def main() -> None:
    """Write every picture beside this script."""
    for name, text in PICTURES.items():
        save_layout_picture(Shape.parse(text), HERE / f"layout_{name}.png")
    blocks = decompose(Shape("f32", (10, 14)), (4, 8), (4, 4)).tiled
    save_layout_picture(blocks, HERE / "layout_blocks.png")


if __name__ == "__main__":
    main()
