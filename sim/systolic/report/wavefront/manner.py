"""How the wavefront is drawn: what its lines are, and what its colours say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

By = Literal["row", "column", "diagonal"]
BYS: tuple[By, ...] = get_args(By)

Colouring = Literal["activity", "vector", "value"]
COLOURINGS: tuple[Colouring, ...] = get_args(Colouring)
"""The phase of the work, the number of the vector, or the size of the value."""

MOST_ELEMENTS = 1 << 19
"""A run with more elements keeps no values for its picture."""


@dataclass(frozen=True, slots=True)
class Manner:
    """by: what the lines of the array's band are. colouring: what colours say."""

    by: By = "row"
    colouring: Colouring = "activity"


PLAIN = Manner()
