"""A memory's geometry in plain integers: partitions, bytes, banks. Not here: its contents."""

from __future__ import annotations

from dataclasses import dataclass

from systolic.layout.errors import LayoutError


@dataclass(frozen=True, slots=True)
class BufferGeometry:
    """The geometry of a memory: partitions of equal bytes, each cut into equal banks."""

    name: str
    partitions: int
    bytes_per_partition: int
    banks: int = 1

    def __post_init__(self) -> None:
        for what in ("partitions", "bytes_per_partition", "banks"):
            if getattr(self, what) < 1:
                raise LayoutError(
                    f"{self.name}: {what} must be at least 1, found {getattr(self, what)}"
                )
        if self.bytes_per_partition % self.banks:
            raise LayoutError(
                f"{self.name}: {self.bytes_per_partition} bytes per partition "
                f"do not divide into {self.banks} banks"
            )

    @property
    def bank_bytes(self) -> int:
        """Bytes of one bank in one partition."""
        return self.bytes_per_partition // self.banks
