"""How much work does a function do? Its calls are counted: a clock would measure the load."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls(function: Callable[[], object]) -> int:
    """Return the number of calls, of Python and of C functions, that `function` makes."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count
