"""XLA shapes, layouts and tiles: the vocabulary for DRAM formats, blocks and buffer placement.

A leaf package: it imports numpy, ml_dtypes and ``sim.errors``, nothing else of ``sim``; numba only
where a large array is packed, and only if it is there. Not here: time, engines, plotting, printing.
"""

from __future__ import annotations

from sim.layout.blocks import Block, Decomposition, decompose
from sim.layout.broadcast import broadcast, broadcast_in_dim, broadcast_shapes, operands
from sim.layout.buffer import Buffer
from sim.layout.element_types import ELEMENT_TYPES, ElementType, element_type, element_type_of
from sim.layout.elementwise import OPERATIONS, binary
from sim.layout.errors import LayoutError, ShapeError
from sim.layout.layout import Layout
from sim.layout.packing import pack, tiled_view, unpack, view
from sim.layout.placement import Placement
from sim.layout.places import (
    accumulator_shape,
    place_in_dram,
    place_in_result_buffer,
    place_in_state_buffer,
)
from sim.layout.relayout import RelayoutPlan, Run, relayout
from sim.layout.shape import Shape
from sim.layout.subbyte import pack_bits, unpack_bits
from sim.layout.text import parse_form, parse_layout
from sim.layout.tile import COMBINE, Tile
from sim.layout.tpu import raw_format, tpu_format

__all__ = [
    "COMBINE",
    "ELEMENT_TYPES",
    "OPERATIONS",
    "Block",
    "Buffer",
    "Decomposition",
    "ElementType",
    "Layout",
    "LayoutError",
    "Placement",
    "RelayoutPlan",
    "Run",
    "Shape",
    "ShapeError",
    "Tile",
    "accumulator_shape",
    "binary",
    "broadcast",
    "broadcast_in_dim",
    "broadcast_shapes",
    "decompose",
    "element_type",
    "element_type_of",
    "operands",
    "pack",
    "pack_bits",
    "parse_form",
    "parse_layout",
    "place_in_dram",
    "place_in_result_buffer",
    "place_in_state_buffer",
    "raw_format",
    "relayout",
    "tiled_view",
    "tpu_format",
    "unpack",
    "unpack_bits",
    "view",
]
