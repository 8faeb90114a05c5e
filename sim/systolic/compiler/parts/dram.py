"""Places of tensors in DRAM: the user's at fixed ones, others where room is free."""

from __future__ import annotations

from dataclasses import dataclass, field

from systolic.compiler.ir.dram_tensor import whole_bursts
from systolic.errors import RoomError
from systolic.hw.spec import Chip
from systolic.spans import Interval


@dataclass(slots=True)
class DramRoom:
    """Rooms that are taken, and who had the bytes before.

    owners: the last owner of each stretch of bytes that was ever given.
    """

    chip: Chip
    taken: dict[str, Interval] = field(default_factory=dict)
    owners: list[tuple[Interval, str]] = field(default_factory=list)

    def take(self, owner: str, size_bytes: int) -> tuple[int, list[str]]:
        """Return the first byte of the lowest free room, and who had some of it before.

        Raises CompileError if there is none.
        """
        size = max(whole_bursts(size_bytes), 1)
        at = 0
        for span in sorted(self.taken.values(), key=lambda span: span.first):
            if span.first - at >= size:
                break
            at = max(at, span.stop)
        have = self.chip.dram.size_bytes
        if at + size > have:
            used = sum(span.stop - span.first for span in self.taken.values())
            raise RoomError(
                f"dram of {self.chip.name} has no room for {owner}: it needs {size} bytes beside "
                f"{used} of others, found size_bytes = {have}"
            )
        found = Interval(at, at + size)
        self.taken[owner] = found
        before = [name for span, name in self.owners if span.meets(found)]
        self.owners = [part for each in self.owners for part in _without(each, found)]
        self.owners.append((found, owner))
        return at, before

    def give(self, owner: str) -> None:
        """Give a room back."""
        del self.taken[owner]


def _without(each: tuple[Interval, str], gone: Interval) -> list[tuple[Interval, str]]:
    """Return what is left of a stretch of bytes without others."""
    span, name = each
    parts = (Interval(span.first, min(span.stop, gone.first)),
             Interval(max(span.first, gone.stop), span.stop))  # fmt: skip
    return [(part, name) for part in parts if part.first < part.stop]
