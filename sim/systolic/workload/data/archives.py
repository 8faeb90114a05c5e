"""Reading one array of a file that holds several by name: .npz, and .safetensors of networks.

Both readers give the array in the type of the file. Not here: whether the type is right.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from systolic.errors import SystolicError, WorkloadError, listed, perhaps, shortened
from systolic.reading import check_file
from systolic.workload.data.npy_csv import NPY_HEADER_LIMIT, NPY_MAGIC, check_dims, header_bytes

LONGEST_REASON = 200
NPY = ".npy"


def read_npz(path: Path, name: str, dims: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the array of that name in an .npz file, which must have these dimensions.

    Pickled objects are refused. The header of the array is read first, so an array of other
    dimensions, however large it unpacks, takes no memory.
    """
    check_file(path, WorkloadError)
    try:
        with path.open("rb") as file:
            if file.read(len(NPY_MAGIC)) == NPY_MAGIC:
                raise WorkloadError(f"{path}: is not an .npz file, but a single array")
        with zipfile.ZipFile(path) as archive:
            members = {each.removesuffix(NPY): each for each in archive.namelist()}
            _require(path, name, members)
            with archive.open(members[name]) as member:
                check_dims(path, _npy_dims(member), dims)
            with archive.open(members[name]) as member:
                found: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
                return found
    except (SystolicError, MemoryError):
        raise
    except Exception as error:  # zipfile and numpy fail in a dozen ways on a bad file
        raise _unreadable(path, ".npz file numpy", error) from None


def _npy_dims(file: IO[bytes]) -> tuple[int, ...]:
    """Return the dimensions in the header of a .npy file."""
    head = file.read(NPY_HEADER_LIMIT)
    length = header_bytes(head)
    if length > NPY_HEADER_LIMIT:
        raise ValueError(f"header of {length} bytes")
    start = io.BytesIO(head)
    version = np.lib.format.read_magic(start)
    is_old = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_old else np.lib.format.read_array_header_2_0
    dims, _, _ = read(start)
    return tuple(dims)


def read_safetensors(path: Path, name: str, dims: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the tensor of that name in a .safetensors file, which must have these dimensions.

    Raises:
        WorkloadError: the package safetensors is not installed, or the file is no such file.

    """
    check_file(path, WorkloadError)
    try:
        from safetensors import safe_open
    except ImportError:
        raise WorkloadError(
            f"{path}: needs the package safetensors, which is not installed (an extra of "
            f"systolic: weights)"
        ) from None
    try:
        with safe_open(path, "numpy") as tensors:
            _require(path, name, tensors.keys())
            check_dims(path, tuple(tensors.get_slice(name).get_shape()), dims)
            found: npt.NDArray[Any] = tensors.get_tensor(name)
            return found
    except (SystolicError, MemoryError):
        raise
    except Exception as error:  # a type that numpy does not have, a truncated file, ...
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


def _read_model(path: Path, name: str, dims: tuple[int, ...]) -> npt.NDArray[Any]:
    from systolic.workload.importers.models import read_constant

    return read_constant(path, name, dims)


READERS = {
    ".npz": read_npz,
    ".safetensors": read_safetensors,
    ".hlo": _read_model,
    ".mlir": _read_model,
    ".onnx": _read_model,
}
"""The reader of each kind of file that holds arrays by name; a model holds its constants."""
