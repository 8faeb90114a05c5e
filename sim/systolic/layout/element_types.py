"""Finding element types by their name in a layout, or by numpy dtype.

The table of types is `systolic.element_types`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from systolic.element_types import ELEMENT_TYPES, ElementType
from systolic.errors import perhaps
from systolic.layout.errors import LayoutError

__all__ = ["ELEMENT_TYPES", "ElementType", "element_type", "element_type_of"]


def element_type(name: str) -> ElementType:
    """Return the type called ``name``; capitals are accepted (``F32``).

    Raises LayoutError with the known names, and the nearest of them if it is near.
    """
    found = ELEMENT_TYPES.get(name) or ELEMENT_TYPES.get(name.lower())
    if found is None:
        hint = perhaps(name.lower()[:_LONGEST], ELEMENT_TYPES)
        known = ", ".join(ELEMENT_TYPES)
        raise LayoutError(f'unknown element type "{name[:_LONGEST]}" (known: {known}){hint}')
    return found


def element_type_of(dtype: Any) -> ElementType:
    """Return the element type that numpy holds as ``dtype``; LayoutError if there is none."""
    wanted = np.dtype(dtype)
    for known in ELEMENT_TYPES.values():
        if known.dtype == wanted:
            return known
    raise LayoutError(f"no element type is held as numpy's {wanted}")


_LONGEST = 24
