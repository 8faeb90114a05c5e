"""How the event engine was built: compiled by mypyc (`make compiled`), or not at all.

What it does is the same; only what is faster may differ.
"""

from __future__ import annotations

from types import FunctionType


def _probe() -> None:
    """Be a function of Python, unless this module is compiled."""


IS_COMPILED = not isinstance(_probe, FunctionType)
