"""The layout package's two errors.

``LayoutError`` is raised for an impossible value (a tile of size 0, an index out of range).
``ShapeError`` is raised for text, where the fault has a column.
"""

from __future__ import annotations

from systolic.errors import SystolicError

_SHOWN = 64


class LayoutError(SystolicError):
    """A shape, layout, placement or broadcast that makes no sense."""


class ShapeError(LayoutError):
    """Text that is no shape: ``text``, ``column`` (1 is the first character) and ``reason``."""

    def __init__(self, text: str, column: int, reason: str) -> None:
        self.text = text
        self.column = column
        self.reason = reason
        super().__init__(f"{_excerpt(text, column)}, column {column}: {reason}")

    def __reduce__(self) -> tuple[type[ShapeError], tuple[str, int, str]]:
        # Errors are pickled when a process of a sweep sends them home. Python's default would
        # build this one from the message alone, and fail.
        return type(self), (self.text, self.column, self.reason)


def _excerpt(text: str, column: int) -> str:
    """Quote the text on one line, cut around the column when it is long."""
    start = max(0, min(column - 1 - _SHOWN // 2, len(text) - _SHOWN))
    part = text[start : start + _SHOWN]
    before = "..." if start else ""
    after = "..." if start + _SHOWN < len(text) else ""
    return repr(before + part + after)
