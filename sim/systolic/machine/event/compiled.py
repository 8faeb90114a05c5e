"""Is the event engine compiled, or do its modules run as they are written?

`make compiled` has mypyc compile them; what they do is the same.
"""

from __future__ import annotations

from types import FunctionType


def _probe() -> None:
    """Be a function of Python if this module runs as it is written."""


IS_COMPILED = not isinstance(_probe, FunctionType)
