"""The findings of the program checker: frozen values that print as one line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from systolic.isa.access import Buffer
from systolic.spans import Interval

Severity = Literal["error", "warning", "hint"]
Code = Literal[
    "illegal",
    "no-weights",
    "never-posted",
    "deadlock",
    "read-after-write",
    "write-after-read",
    "write-after-write",
    "self-overlap",
    "unwritten",
    "undrained",
    "unused-post",
    "lost-post",
]


@dataclass(frozen=True, slots=True)
class BufferBox:
    """A box of a buffer: the intervals of its partitions, and of the bytes in each partition."""

    buffer: Buffer
    partitions: Interval
    bytes: Interval

    def __str__(self) -> str:
        """Return ``result_buffer[0:4] bytes 0:16``."""
        (first, stop), (low, high) = self.partitions, self.bytes
        return f"{self.buffer}[{first}:{stop}] bytes {low}:{high}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding.

    instructions: index and kind of the one or two instructions involved; the instruction that the
    message is about comes first. region: the place, if the finding is about memory.
    """

    code: Code
    severity: Severity
    message: str
    instructions: tuple[tuple[int, str], ...] = ()
    region: BufferBox | None = None

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.severity} {self.code}: {self.message}"


def named(index: int, instruction: object) -> str:
    """Return how messages name an instruction: ``instruction 3 (MatMul)``."""
    return f"instruction {index} ({type(instruction).__name__})"
