"""Reading the text form of shapes: ``bf16[33,200]{1,0:T(8,128)(2,1)E(16)S(1)}``.

The reader is stricter than XLA's parser, which lets several malformed texts through. Every error is
a ``ShapeError`` with a column. ``str()`` prints the values, and ``Shape.parse(str(shape)) ==
shape`` (except for legacy padding, which has no text form). The function that makes an array is an
argument of the reader: ``Shape.parse`` calls the reader, so this module cannot import ``shape``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from systolic.layout.attributes import ATTRIBUTES
from systolic.layout.element_types import element_type
from systolic.layout.errors import LayoutError
from systolic.layout.layout import MAX_PARTS, Layout
from systolic.layout.text.forms import (
    ArrayForm,
    BufferShape,
    DynamicDimension,
    DynamicShape,
    Form,
    NamedShape,
    TupleShape,
)
from systolic.layout.text.tokens import Token, Tokens
from systolic.layout.tile import COMBINE, Tile

Value = TypeVar("Value")

MAX_DEPTH = 32
"""The deepest nesting of tuples that is read."""

_UNSUPPORTED = {
    "D": "dimension level types",
    "#": "an index type",
    "*": "a pointer type",
    "SC": "splits over cores",
    "P": "physical shapes",
    "M": "dynamic shape metadata",
}


ArrayMaker: TypeAlias = Callable[[str, Sequence[int], Layout | None], ArrayForm]
"""A function that makes an array from element type, dimensions and layout, such as ``Shape``."""


def parse_array(text: str, array: ArrayMaker[ArrayForm]) -> ArrayForm:
    """Return the array that ``text`` spells, made by ``array``; raises ShapeError."""
    tokens = Tokens(text)
    first = tokens.next
    form = _FormReader(tokens, array).whole()
    if isinstance(form, DynamicShape):
        return tokens.fail(first, f"expected an array of known size, found {_short(form)}")
    if isinstance(form, TupleShape | NamedShape | BufferShape):
        return tokens.fail(first, f"expected an array shape, found {_short(form)}")
    return form


def parse_form(text: str, array: ArrayMaker[ArrayForm]) -> Form[ArrayForm]:
    """Return the form that ``text`` spells: an array, a dynamic array, a tuple, a token, ..."""
    return _FormReader(Tokens(text), array).whole()


def parse_layout(text: str) -> Layout:
    """Return the layout that ``text`` spells, e.g. ``{1,0:T(8,128)}``; raises ShapeError."""
    tokens = Tokens(text)
    layout = _layout(tokens)
    _end(tokens)
    return layout


def _short(form: object) -> str:
    shown = str(form)
    return f'"{shown[:40]}..."' if len(shown) > 40 else f'"{shown}"'


def _end(tokens: Tokens) -> None:
    if tokens.next.kind != "end":
        tokens.fail(tokens.next, f"expected the end of the text, found {tokens.next}")


class _FormReader(Generic[ArrayForm]):
    """Reads a form from tokens; every array of known size in it is made by ``array``."""

    def __init__(self, tokens: Tokens, array: ArrayMaker[ArrayForm]) -> None:
        self._tokens, self._array = tokens, array

    def whole(self) -> Form[ArrayForm]:
        """Return the form that all the tokens spell."""
        form = self._form(depth=0)
        _end(self._tokens)
        return form

    def _form(self, depth: int) -> Form[ArrayForm]:
        tokens = self._tokens
        if depth > MAX_DEPTH:
            tokens.fail(tokens.next, f"tuples may be nested {MAX_DEPTH} deep")
        if tokens.take_if("("):
            return self._tuple(depth)
        name = tokens.next
        if name.kind != "word":
            tokens.fail(name, f"expected an element type, found {name}")
        tokens.take()
        if name.text == "b" and tokens.take_if("("):
            inner = self._form(depth + 1)
            tokens.expect(")", "at the end of the buffer")
            return BufferShape(inner)
        if name.text in ("token", "opaque"):
            tokens.expect("[", f"after {name.text}")
            tokens.expect("]", f"after {name.text}[")
            return NamedShape(name.text)
        return self._dimensioned(name)

    def _tuple(self, depth: int) -> TupleShape[ArrayForm]:
        elements: list[Form[ArrayForm]] = []
        if not self._tokens.take_if(")"):
            elements.append(self._form(depth + 1))
            while self._tokens.take_if(","):
                elements.append(self._form(depth + 1))
            self._tokens.expect(")", "or a comma at the end of a tuple's element")
        return TupleShape(tuple(elements))

    def _dimensioned(self, name: Token) -> ArrayForm | DynamicShape:
        """Return the array whose element type, ``name``, has just been taken."""
        tokens = self._tokens
        kind = _built(tokens, name, lambda: element_type(name.text)).name
        sizes = tokens.next
        dims = _dims(tokens)
        given = tokens.next
        layout = _layout(tokens) if given.text == "{" else None
        if layout is not None and layout.rank != len(dims):
            reason = f"minor_to_major has {layout.rank} entries, but the shape has"
            tokens.fail(given, f"{reason} {len(dims)} dimensions")
        fixed = [size for size in dims if isinstance(size, int)]
        if len(fixed) == len(dims):
            return _built(tokens, sizes, lambda: self._array(kind, fixed, layout))
        chosen = layout or _built(tokens, sizes, lambda: Layout.row_major(len(dims)))
        return DynamicShape(kind, dims, chosen)


def _built(tokens: Tokens, where: Token, build: Callable[[], Value]) -> Value:
    """Return what ``build`` makes; a value refused there becomes a ShapeError at ``where``."""
    try:
        return build()
    except LayoutError as refused:
        return tokens.fail(where, str(refused))


def _dims(tokens: Tokens) -> tuple[int | DynamicDimension, ...]:
    tokens.expect("[", "after the element type")
    if tokens.take_if("]"):
        return ()
    dims = [_dim(tokens)]
    while tokens.take_if(","):
        dims.append(_dim(tokens))
        if len(dims) > MAX_PARTS:
            tokens.fail(tokens.next, f"a shape may have at most {MAX_PARTS} dimensions")
    tokens.expect("]", "or a comma after a dimension")
    return tuple(dims)


def _dim(tokens: Tokens) -> int | DynamicDimension:
    token = tokens.next
    if tokens.take_if("?"):
        return DynamicDimension(None)
    bounded = tokens.take_if("<=")
    size = tokens.integer("a dimension")
    if size < 0:
        tokens.fail(token, f"a dimension must not be negative, found {size}")
    return DynamicDimension(size) if bounded else size


def _layout(tokens: Tokens) -> Layout:
    start = tokens.expect("{", "at the start of a layout")
    order: tuple[int, ...] = ()
    if tokens.next.kind == "integer":
        order = tokens.integers("a dimension number")
    elif tokens.next.text != ":":
        tokens.fail(tokens.next, f'expected a dimension number or ":", found {tokens.next}')
    tiles, numbers = _attributes(tokens) if tokens.take_if(":") else ((), {})
    tokens.expect("}", "at the end of the layout")
    return _built(tokens, start, lambda: Layout(order, tiles, numbers=numbers.items()))


def _order() -> tuple[str, ...]:
    """Return the letters of a layout's attributes, in the order in which they stand."""
    return "T", *ATTRIBUTES


def _attributes(tokens: Tokens) -> tuple[tuple[Tile, ...], dict[str, int]]:
    """Return the tiles and the other attributes of a layout, by letter; the colon is taken."""
    tiles: tuple[Tile, ...] = ()
    numbers: dict[str, int] = {}
    seen: list[str] = []
    while tokens.next.text != "}" and tokens.next.kind != "end":
        letter = tokens.next
        if letter.text in _UNSUPPORTED:
            tokens.fail(letter, f'{_UNSUPPORTED[letter.text]}, "{letter.text}", are not supported')
        if letter.text not in _order():
            hint = _tiles_without_letter(tokens.text[letter.column - 1 :])
            known = ", ".join(_order())
            tokens.fail(letter, f'expected {known} or "}}" in the layout, found {letter}{hint}')
        _check_order(tokens, letter, seen)
        seen.append(tokens.take().text)
        if letter.text == "T":
            tiles = _tiles(tokens)
        else:
            numbers[letter.text] = _number(tokens, letter)
    return tiles, numbers


def _tiles_without_letter(text: str) -> str:
    """Return a hint for tiles without a T, which some texts in the documents have."""
    tiles = re.match(r"(\([0-9*, ]+\)){1,4}", text[:64])
    return "" if tiles is None else f'; perhaps "T{tiles[0]}" was meant'


def _check_order(tokens: Tokens, letter: Token, seen: Sequence[str]) -> None:
    order = _order()
    if letter.text in seen:
        tokens.fail(letter, f'"{letter.text}" stands twice in the layout')
    if seen and order.index(letter.text) < order.index(seen[-1]):
        reason = f'"{letter.text}" must stand before "{seen[-1]}": the order is {", ".join(order)}'
        tokens.fail(letter, reason)


def _number(tokens: Tokens, letter: Token) -> int:
    tokens.expect("(", f"after {letter.text}")
    where = tokens.next
    number = tokens.integer(f"the number of {letter.text}")
    least = ATTRIBUTES[letter.text].least
    if number < least:
        tokens.fail(where, f"{letter.text} needs at least {least}, found {number}")
    tokens.expect(")", f"after the number of {letter.text}")
    return number


def _tiles(tokens: Tokens) -> tuple[Tile, ...]:
    tokens.expect("(", "after T: at least one tile")
    tiles = [_tile(tokens)]
    while tokens.take_if("("):
        tiles.append(_tile(tokens))
    return tuple(tiles)


def _tile(tokens: Tokens) -> Tile:
    first = tokens.next
    sizes = [_tile_size(tokens)]
    while tokens.take_if(","):
        sizes.append(_tile_size(tokens))
    tokens.expect(")", "or a comma after a tile size")
    return _built(tokens, first, lambda: Tile(sizes))


def _tile_size(tokens: Tokens) -> int:
    token = tokens.next
    if tokens.take_if("*"):
        return COMBINE
    if token.kind != "integer":
        tokens.fail(token, f'expected a tile size (an integer or "*"), found {token}')
    size = tokens.integer("a tile size")
    if size < 1:
        tokens.fail(token, f"a tile size must be at least 1, found {size}")
    return size
