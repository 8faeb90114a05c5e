"""The kind of a file that is no program, for the message that refuses the file.

A file is known by its first bytes, or else by the end of its name. Nothing else is read.
"""

from __future__ import annotations

import re
from pathlib import Path

TAKEN = (
    "systolic takes run files, whose names end in .toml, and programs, which begin with "
    '"systolic program 1" (text) or SYSB (binary)'
)
BEGINNINGS: dict[bytes, str] = {
    b"\x93NUMPY": "a NumPy array, which is data for a run",
    b"PK\x03\x04": "a zip archive, such as .npz or a PyTorch model",
    b"\x89HDF": "an HDF5 file",
    b"\x7fELF": "a compiled program of this computer",
    b"{": "JSON, such as the summary of a run",
}
ENDINGS: dict[str, str] = {
    ".onnx": "an ONNX model",
    ".tflite": "a TensorFlow Lite model",
    ".pt": "a PyTorch model",
    ".pth": "a PyTorch model",
    ".mlir": "an MLIR module",
    ".hlo": "an HLO module",
    ".csv": "a table of numbers, which is data for a run",
    ".py": "a Python program",
}
RUN_FILE = re.compile(rb"^\s*(chip\s*=|\[workload)", re.MULTILINE)
HEAD_BYTES = 1 << 16


def not_a_program(path: Path, data: bytes) -> str:
    """Return the message that refuses a file: what the file looks like, and what is taken."""
    return f"{path}: {_kind(path, data[:HEAD_BYTES])}; {TAKEN}"


def _kind(path: Path, head: bytes) -> str:
    if not head.strip():
        return "is empty"
    for beginning, kind in BEGINNINGS.items():
        if head.startswith(beginning):
            return f"looks like {kind}"
    if kind := ENDINGS.get(path.suffix.lower(), ""):
        return f"looks like {kind}"
    if RUN_FILE.search(head):
        return "looks like a run file, but for its name"
    return "is neither a run file nor a program"
