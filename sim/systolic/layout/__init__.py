"""XLA shapes, layouts and tiles: the vocabulary for DRAM formats, blocks and buffer placement.

A leaf package: it imports numpy, ml_dtypes and, of the package, only modules that every room may
import. Large arrays are packed with numba if it is installed. Not here: time, engines, plotting,
printing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from systolic.layout.blocks import Block, Decomposition, decompose
from systolic.layout.element_types import ELEMENT_TYPES, ElementType, element_type, element_type_of
from systolic.layout.errors import LayoutError, ShapeError
from systolic.layout.layout import Layout
from systolic.layout.packing.packing import pack, tiled_view, unpack, view
from systolic.layout.packing.subbyte import pack_bits, unpack_bits
from systolic.layout.relayout.plan import ContiguousRun, RelayoutPlan, relayout
from systolic.layout.shape import Shape, parse_form
from systolic.layout.text.read import parse_layout
from systolic.layout.tile import COMBINE, Tile
from systolic.lazy import loader as _loader

if TYPE_CHECKING:
    from systolic.layout.broadcasting.broadcast import (
        broadcast,
        broadcast_in_dim,
        broadcast_shapes,
        operands,
    )
    from systolic.layout.broadcasting.elementwise import OPERATIONS, binary
    from systolic.layout.placement.buffer import BufferGeometry
    from systolic.layout.placement.conventions import (
        accumulator_shape,
        place_in_dram,
        place_in_result_buffer,
        place_in_state_buffer,
    )
    from systolic.layout.placement.placement import Placement
    from systolic.layout.tpu_formats import raw_format, tpu_format

# Few runs broadcast, place a tensor element by element, or ask for a format of the TPU.
LAZY = {
    "broadcasting.broadcast": "broadcast broadcast_in_dim broadcast_shapes operands",
    "broadcasting.elementwise": "OPERATIONS binary",
    "placement.buffer": "BufferGeometry",
    "placement.conventions": (
        "accumulator_shape place_in_dram place_in_result_buffer place_in_state_buffer"
    ),
    "placement.placement": "Placement",
    "tpu_formats": "raw_format tpu_format",
}
__getattr__ = _loader(__name__, LAZY)

__all__ = [
    "COMBINE",
    "ELEMENT_TYPES",
    "OPERATIONS",
    "Block",
    "BufferGeometry",
    "ContiguousRun",
    "Decomposition",
    "ElementType",
    "Layout",
    "LayoutError",
    "Placement",
    "RelayoutPlan",
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
