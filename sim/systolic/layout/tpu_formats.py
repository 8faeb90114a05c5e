"""The formats that a TPU uses: the tiles of an array of a given type and size.

This module is used from Python only, as in `notebooks/02_layouts.ipynb`: the simulated chip has no
formats that it prefers.

There are two rules: one in the documents (seed 002, examples of formats), and one compiled into
the TPU dialect, which depends on the hardware generation. Not here: why a register is 8 x 128.
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.layout.element_types import element_type
from systolic.layout.errors import LayoutError
from systolic.layout.layout import Layout
from systolic.layout.shape import Shape
from systolic.layout.tile import Tile

LANES = 128
SUBLANES = 8
WORD_BITS = 32

_SMALL_GENERATION = 4
"""From this generation on a tile may be a single row; before, it has at least two rows."""


def raw_format(element_type_name: str, dims: Sequence[int]) -> Shape:
    """Return the plain linear format, as in C: row major, no tiles (seed 002, format 1)."""
    return Shape(element_type_name, dims)


def tpu_format(
    element_type_name: str,
    dims: Sequence[int],
    generation: int | None = None,
    *,
    minor_to_major: Sequence[int] | None = None,
    large_second_minor: bool = False,
    element_bits: int | None = None,
) -> Shape:
    """Return the shape with the tiles a TPU gives it.

    ``generation=None`` is the documents' rule. Tiles are 8 x 128. For 32-bit types they are 2 x 128
    or 4 x 128 if the second-minor dimension is at most 2 or 4. Below 32 bits a second tile gathers
    rows into words: ``(8,128)(2,1)``, ``(8,128)(4,1)``. A number is the dialect's rule for that
    generation; ``large_second_minor`` turns on its optional taller tiles. For vectors and scalars
    the documents have no rule: they follow the dialect (for None the rule of generation 3).

    "Second-minor" means the physical order, so ``minor_to_major`` counts. Types narrower than a
    byte get ``E(n)``. ``pred`` is a byte unless ``element_bits=1``, which gives
    ``(32,128)(32,1)E(1)``. Raises LayoutError for types wider than 32 bits, for which no format is
    known.
    """
    kind = element_type(element_type_name)
    bits = element_bits or (kind.storage_bits if kind.name == "pred" else kind.bits)
    if bits not in (1, 2, 4, 8, 16, 32):
        raise LayoutError(
            f"a TPU register holds {WORD_BITS}-bit words: no tiled format is known for "
            f"{bits}-bit {kind}"
        )
    if generation is not None and generation < 1:
        raise LayoutError(f"the hardware generation must be at least 1, found {generation}")
    order = tuple(range(len(dims) - 1, -1, -1)) if minor_to_major is None else minor_to_major
    tiles = _tiles(_Rule(bits, generation, large_second_minor), dims, order)
    packed = bits if bits != kind.storage_bits else 0
    return Shape(element_type_name, dims, Layout(order, tiles, element_bits=packed))


class _Rule:
    """How many rows a tile has, for one width of elements on one generation."""

    def __init__(self, bits: int, generation: int | None, large: bool) -> None:
        self.packing = WORD_BITS // bits
        self._documents = generation is None
        self._large_rows = SUBLANES * self.packing if large and bits < WORD_BITS else 0
        least = 2 if generation is None or generation < _SMALL_GENERATION else 1
        self.least_rows = self.packing * least

    def rows(self, second_minor: int) -> int:
        """Return the rows of a matrix tile."""
        if self._documents and self.packing > 1:
            return max(SUBLANES, self.packing)
        return self.dialect_rows(second_minor)

    def dialect_rows(self, second_minor: int) -> int:
        """Return the least rows, doubled until they reach the size or 8; or a large tile's rows."""
        if self._large_rows and second_minor >= self._large_rows:
            return self._large_rows
        rows = self.least_rows
        while rows < min(second_minor, SUBLANES):
            rows *= 2
        return rows

    @property
    def words(self) -> tuple[Tile, ...]:
        """The tile that gathers elements of one column into a word."""
        return (Tile((self.packing, 1)),) if self.packing > 1 else ()


def _tiles(rule: _Rule, dims: Sequence[int], order: Sequence[int]) -> tuple[Tile, ...]:
    if len(dims) == 0:
        return (Tile((LANES * rule.least_rows,)),)
    if len(dims) == 1:
        return _vector_tiles(rule, dims[0])
    number = order[1]
    if not 0 <= number < len(dims):
        raise LayoutError(f"minor_to_major names dimension {number} of {len(dims)}")
    return (Tile((rule.rows(dims[number]), LANES)), *rule.words)


def _vector_tiles(rule: _Rule, length: int) -> tuple[Tile, ...]:
    rows = rule.dialect_rows(-(-length // LANES))
    lanes = (Tile((LANES,)),) if rule.packing > 1 else ()
    return (Tile((rows * LANES,)), *lanes, *rule.words)
