"""XLA shapes, layouts and tiles: the vocabulary for DRAM formats, blocks and buffer placement.

A leaf package: it imports numpy, ml_dtypes and ``sim.errors``, nothing else of ``sim``.
Not here: time, engines, plotting, printing.
"""

from __future__ import annotations

from sim.layout.blocks import Block, Decomposition, decompose
from sim.layout.element_types import ELEMENT_TYPES, ElementType, element_type, element_type_of
from sim.layout.errors import LayoutError, ShapeError
from sim.layout.layout import Layout
from sim.layout.packing import pack, tiled_view, unpack, view
from sim.layout.shape import Shape
from sim.layout.text import parse_form, parse_layout
from sim.layout.tile import COMBINE, Tile

__all__ = [
    "COMBINE",
    "ELEMENT_TYPES",
    "Block",
    "Decomposition",
    "ElementType",
    "Layout",
    "LayoutError",
    "Shape",
    "ShapeError",
    "Tile",
    "decompose",
    "element_type",
    "element_type_of",
    "pack",
    "parse_form",
    "parse_layout",
    "tiled_view",
    "unpack",
    "view",
]
