"""Texts of users in pictures: drawn letter by letter, whatever matplotlib would make of them.

A name such as `x_{i}$` is no formula, and a letter that the font lacks is a box, not a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def texts_as_written() -> Iterator[None]:
    """Have every text that is drawn meanwhile stand for itself: no mathtext, no font warnings."""
    import matplotlib

    with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")
        yield
