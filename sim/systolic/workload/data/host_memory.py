"""Whether this computer has the memory that a tensor needs, asked before the memory is taken.

The estimate keeps a wrong digit in a shape from bringing the computer to a halt. Not here: whether
the tensor fits the simulated chip.
"""

from __future__ import annotations

from pathlib import Path

from systolic.errors import WorkloadError
from systolic.layout import Shape

# The data, the chip's memory, the result, and the array that the result is compared with.
COPIES = 4


def check_host_memory(shape: Shape) -> None:
    """Raise WorkloadError if a run on an array of that shape would not fit in free memory."""
    need = COPIES * shape.num_elements() * shape.dtype.itemsize
    free = available_bytes()
    if free is not None and need > free:
        raise WorkloadError(
            f"{shape} needs {_size(need)} in this computer's memory ({COPIES} copies), "
            f"which has {_size(free)} free"
        )


def available_bytes() -> int | None:
    """Return the bytes of memory that are free for use, or None where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        line = next(line for line in text.splitlines() if line.startswith("MemAvailable:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _size(count: int) -> str:
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
