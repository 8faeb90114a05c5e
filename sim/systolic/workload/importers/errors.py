"""Faults of an imported file, each with the line and column at which it was found."""

from __future__ import annotations

from typing import NoReturn

from systolic.errors import WorkloadError


class ImportFileError(WorkloadError):
    """A model that cannot be read, or an operation that cannot be done: says where and why."""


class CannotLowerError(Exception):
    """Raised by a reader's row that meets a form of its operation that graphs cannot say."""


def fail_at(text: str, offset: int, message: str) -> NoReturn:
    """Raise ImportFileError for what stands at an offset of a text."""
    line, column = line_and_column(text, offset)
    raise ImportFileError(f"line {line}, column {column}: {message}")


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the line and the column of an offset, both counted from 1."""
    before = text.rfind("\n", 0, offset)
    return text.count("\n", 0, offset) + 1, offset - before
