"""Types of numpy arrays that many rooms speak of."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""Of an element type that the type checker does not know."""

Integers: TypeAlias = npt.NDArray[np.int64]
"""Indices, offsets, counts: the name of the variable says which."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""True where something holds."""
