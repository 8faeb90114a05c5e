"""Which part of a long sweep runs every time, and which in the slow tier only.

No case is dropped by being slow: `pytest -m slow` runs what `make test` leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def quick_first(cases: Iterable[Any], quick: int) -> list[Any]:
    """Return parameters: the first `quick` cases as they are, the rest marked slow.

    A case of several parameters is a tuple.
    """
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*row, marks=[pytest.mark.slow] if place >= quick else [])
        for place, row in enumerate(rows)
    ]
