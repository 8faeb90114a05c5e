"""Reading matrices from .npy and .csv files that nobody vouches for, and writing .npy files.

Both readers give the array as the file has it. Not here: whether it is the one asked for.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.errors import WorkloadError

NPY_MAGIC = b"\x93NUMPY"
CSV_LIMIT_BYTES = 256 << 20

# Types that a .npy file can name; the others (bfloat16, float8, 4 bits) are written as plain bytes.
PLAIN_TYPES = tuple(np.dtype(code) for code in ("?", "f2", "f4", "f8", *"bBhHiIlL"))


def write_npy(path: Path, array: npt.NDArray[Any]) -> None:
    """Write an array so that any numpy reads it; types numpy does not know come as V1 or V2."""
    plain = array.dtype in PLAIN_TYPES
    with path.open("wb") as file:
        np.save(file, array if plain else array.view(f"V{array.dtype.itemsize}"), False)


def read_npy(path: Path) -> npt.NDArray[Any]:
    """Return the array in a .npy file, mapped and not yet read; pickled objects are refused."""
    _check_file(path)
    with _open(path) as file:
        if file.read(len(NPY_MAGIC)) != NPY_MAGIC:
            raise WorkloadError(f"{path}: is not a .npy file (it must begin with \\x93NUMPY)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Mapping compares the header's size with the file's before any memory is taken.
            array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy's header parser fails in a dozen ways on a bad file
        raise WorkloadError(f"{path}: is not a .npy file numpy can read ({_line(error)})") from None
    return array


def read_csv(path: Path) -> npt.NDArray[np.float64]:
    """Return a file of comma-separated numbers, float64 [rows, columns]; a header is skipped."""
    _check_file(path)
    if path.stat().st_size > CSV_LIMIT_BYTES:
        raise WorkloadError(f"{path}: is larger than {CSV_LIMIT_BYTES >> 20} MiB; use .npy instead")
    try:
        with _open(path) as file:
            lines = file.read().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise WorkloadError(f"{path}: is not a text file (UTF-8)") from None
    rows = [line for line in lines if line.strip()]
    if rows and not _is_numbers(rows[0]):
        rows = rows[1:]
    if not rows:
        raise WorkloadError(f"{path}: holds no numbers")
    try:
        return np.loadtxt(rows, np.float64, delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        raise WorkloadError(f"{path}: is not a matrix of numbers ({_line(error)})") from None


def _is_numbers(line: str) -> bool:
    try:
        return all(float(cell) is not None for cell in line.split(","))
    except ValueError:
        return False


def _check_file(path: Path) -> None:
    try:
        exists, regular = path.exists(), path.is_file()
    except (OSError, ValueError) as error:
        raise WorkloadError(f"{str(path)!r}: cannot be a file name ({_line(error)})") from None
    if not exists:
        raise WorkloadError(f"{path}: no such file")
    if not regular:
        raise WorkloadError(f"{path}: is not a file")


def _open(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read ({error.strerror})") from None


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
