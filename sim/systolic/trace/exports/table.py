"""The formats that a run can be exported to: a further format is a further row, and its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, TypeAlias

from systolic.trace.exports.observed import Observed
from systolic.trace.exports.perfetto import perfetto
from systolic.trace.exports.vcd import vcd

Export: TypeAlias = Callable[[Observed, BinaryIO], None]
"""Writes a run to a file piece by piece."""


def as_text(lines: Callable[[Observed], Iterator[str]]) -> Export:
    """Return the export that writes the pieces of text that a function yields, as UTF-8."""

    def write(observed: Observed, file: BinaryIO) -> None:
        file.writelines(piece.encode() for piece in lines(observed))

    return write


FORMATS: dict[str, Export] = {"perfetto": as_text(perfetto), "vcd": as_text(vcd)}
