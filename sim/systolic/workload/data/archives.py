"""Reading one array of a file that holds several by name: .npz, and .safetensors of networks.

Both readers give the array in the shape and type of the file. Not here: whether these are right.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from systolic.errors import WorkloadError, listed, perhaps, shortened
from systolic.reading import check_file

LONGEST_REASON = 200
NPY = ".npy"


def read_npz(path: Path, name: str) -> npt.NDArray[Any]:
    """Return the array of that name in an .npz file; pickled objects are refused."""
    check_file(path, WorkloadError)
    try:
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise WorkloadError(f"{path}: is not an .npz file, but a single array")
            _require(path, name, arrays.files)
            found: npt.NDArray[Any] = arrays[name]
            return found
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, ".npz file numpy", error) from None


def read_safetensors(path: Path, name: str) -> npt.NDArray[Any]:
    """Return the tensor of that name in a .safetensors file.

    Raises:
        WorkloadError: the package safetensors is not installed, or the file is no such file.

    """
    check_file(path, WorkloadError)
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise WorkloadError(
            f"{path}: needs the package safetensors, which is not installed (an extra of "
            f"systolic: weights)"
        ) from None
    try:
        with safe_open(path, "numpy") as tensors:
            _require(path, name, tensors.keys())
            found: npt.NDArray[Any] = tensors.get_tensor(name)
            return found
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise _unreadable(path, ".safetensors file the package", error) from None


def _require(path: Path, name: str, names: Collection[str]) -> None:
    """Raise WorkloadError unless there is an array of that name."""
    if name not in names:
        raise WorkloadError(
            f'{path}: holds no array "{shortened(name)}", but {listed(names)}{perhaps(name, names)}'
        )


def _unreadable(path: Path, what: str, error: Exception) -> WorkloadError:
    reason = shortened((str(error).splitlines() or [type(error).__name__])[0], LONGEST_REASON)
    return WorkloadError(f"{path}: is not a {what} can read ({reason})")


READERS = {".npz": read_npz, ".safetensors": read_safetensors}
"""The reader of each kind of file that holds arrays by name."""
