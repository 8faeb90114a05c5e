"""Constants of HLO text as arrays."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.errors import shortened
from systolic.layout import Shape
from systolic.workload.importers.hlo.attributes import fault

_BRACES = re.compile(r"[{}\s]+")
_NAN = re.compile(r"-?nan(\(0x[0-9a-f]+\))?", re.IGNORECASE)


def literal(text: str, shape: Shape) -> Array:
    """Return the elements that a constant's text spells, in the type and dimensions of its shape.

    Raises:
        AttributeFaultError: the text leaves elements out, or does not have as many as the shape.

    """
    if "..." in text:
        fault(
            "the text leaves out the elements of this constant: print it again with "
            "print_large_constants (of HloPrintOptions)"
        )
    words = [word for word in _BRACES.sub(" ", text).replace(",", " ").split() if word]
    wanted = int(np.prod(shape.dims, dtype=np.int64))
    if len(words) != wanted:
        fault(f"needs {wanted} elements for {shape}, found {len(words)}")
    return _elements(words, shape).reshape(shape.dims)


def _elements(words: list[str], shape: Shape) -> Array:
    try:
        if shape.element_type == "pred":
            return np.array([_truth(word) for word in words], bool)
        if shape.dtype.kind in "iu":
            return _integers(words, shape)
        plain = [_NAN.sub("nan", word) for word in words]
        return np.array(plain, np.float64).astype(shape.dtype)
    except (ValueError, OverflowError):
        fault(f"needs numbers of {shape.element_type}, found {shortened(' '.join(words[:8]))}")


def _truth(word: str) -> bool:
    if word not in ("true", "false", "1", "0"):
        raise ValueError
    return word in ("true", "1")


def _integers(words: list[str], shape: Shape) -> Array:
    found: Any = np.array([int(word) for word in words], object)
    if shape.type.integer_range is not None and len(found):
        low, high = shape.type.integer_range
        if min(found) < low or max(found) > high:
            raise OverflowError
    return np.asarray(found.astype(shape.dtype))
