"""Reading matrices from .npy and .csv files, which may hold anything, and writing .npy files.

Both readers give the array in the shape and type of the file. Not here: whether these are right.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.errors import WorkloadError, shortened
from systolic.reading import check_file

NPY_MAGIC = b"\x93NUMPY"
CSV_LIMIT_BYTES = 256 << 20
HEAD_BYTES, NPY_HEADER_LIMIT = 12, 1 << 16
LONGEST_REASON = 200

# A .npy file can name these types; others (bfloat16, float8, 4 bits) are written as plain bytes.
PLAIN_TYPES = tuple(np.dtype(code) for code in ("?", "f2", "f4", "f8", *"bBhHiIlL"))


def write_npy(path: Path, array: npt.NDArray[Any]) -> None:
    """Write an array that any numpy can read; types it does not know are written as V1 or V2."""
    plain = array.dtype in PLAIN_TYPES
    with path.open("wb") as file:
        np.save(file, array if plain else array.view(f"V{array.dtype.itemsize}"), False)


def read_npy(path: Path) -> npt.NDArray[Any]:
    """Return the array in a .npy file, mapped and not yet read; pickled objects are refused."""
    check_file(path, WorkloadError)
    with _open(path) as file:
        _check_header(path, file.read(HEAD_BYTES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Mapping compares the header's size with the file's before any memory is taken.
            array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy's header parser fails in a dozen ways on a bad file
        reason = shortened(_line(error), LONGEST_REASON)
        raise WorkloadError(f"{path}: is not a .npy file numpy can read ({reason})") from None
    return array


def _check_header(path: Path, head: bytes) -> None:
    """Raise WorkloadError for a file that is no .npy file, or whose header is far too long."""
    if not head.startswith(NPY_MAGIC):
        raise WorkloadError(f"{path}: is not a .npy file (it must begin with \\x93NUMPY)")
    length = header_bytes(head)
    if length > NPY_HEADER_LIMIT:  # numpy reads all of it before it looks at it
        raise WorkloadError(f"{path}: is not a .npy file numpy can read (header of {length} bytes)")


def header_bytes(head: bytes) -> int:
    """Return the length of a .npy file's header, which its first bytes say."""
    size = len(NPY_MAGIC)
    is_old = head[size : size + 1] == b"\x01"
    return int.from_bytes(head[size + 2 : size + (4 if is_old else 6)], "little")


def check_dims(path: Path, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raise WorkloadError unless a file's array has the dimensions that are wanted."""
    if found != wanted:
        raise WorkloadError(
            f"{path}: holds {shortened(str(list(found)))} elements, but the shape is {list(wanted)}"
        )


def read_csv(path: Path) -> npt.NDArray[np.float64]:
    """Return a file of comma-separated numbers, float64 [rows, columns]; a header is skipped."""
    if check_file(path, WorkloadError) > CSV_LIMIT_BYTES:
        raise WorkloadError(f"{path}: is larger than {CSV_LIMIT_BYTES >> 20} MiB; use .npy instead")
    try:
        with TextIOWrapper(_open(path), "utf-8-sig") as text:
            rows = _rows(text)
            first = next(rows, None)
            if first is None:
                raise WorkloadError(f"{path}: holds no numbers")
            # Line by line: text takes many times the memory of its numbers.
            return np.loadtxt(
                chain([first], rows), np.float64, delimiter=",", comments=None, ndmin=2
            )
    except UnicodeDecodeError:
        raise WorkloadError(f"{path}: is not a text file (UTF-8)") from None
    except ValueError as error:
        reason = shortened(_line(error), LONGEST_REASON)
        raise WorkloadError(f"{path}: is not a matrix of numbers ({reason})") from None


def _rows(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that hold numbers: no empty ones, and no header."""
    filled = (line for line in lines if line.strip())
    for number, line in enumerate(filled):
        if number or _is_numbers(line):
            yield line


def _is_numbers(line: str) -> bool:
    try:
        return all(float(cell) is not None for cell in line.split(","))
    except ValueError:
        return False


def _open(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read ({error.strerror})") from None


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
