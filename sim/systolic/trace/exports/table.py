"""The formats that a run can be exported to: a further format is a further row, and its file."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from systolic.errors import SystolicError
from systolic.trace.exports.observed import Observed
from systolic.trace.exports.parquet import parquet
from systolic.trace.exports.perfetto import perfetto
from systolic.trace.exports.vcd import vcd


class Format(NamedTuple):
    """write: writes a run to an open file, piece by piece.

    requires: the library that it needs besides the libraries of every installation. The extra that
    brings the library has the name of the format.
    """

    write: Callable[[Observed, BinaryIO], None]
    requires: str = ""


def as_text(lines: Callable[[Observed], Iterator[str]]) -> Format:
    """Return the format that is the pieces of text that a function yields, as UTF-8."""

    def write(observed: Observed, file: BinaryIO) -> None:
        file.writelines(piece.encode() for piece in lines(observed))

    return Format(write)


FORMATS: dict[str, Format] = {
    "perfetto": as_text(perfetto),
    "vcd": as_text(vcd),
    "parquet": Format(parquet, requires="pyarrow"),
}


def require_library(form: str) -> None:
    """Raise SystolicError if the library that a format needs is not installed."""
    library = FORMATS[form].requires
    try:
        if library:
            importlib.import_module(library)
    except ImportError:
        raise SystolicError(
            f'{form}: needs {library}, which is not installed (pip install "systolic[{form}]")'
        ) from None
