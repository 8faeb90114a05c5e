"""Accumulation groups: to which sums of a bank of the result buffer may be added still.

A multiply that overwrites its words begins a group; those that accumulate onto the same words, or
some of them, belong to it. On a chip with `result_buffer.groups_per_bank` a bank keeps that many
groups open: the next one closes the oldest that has one of its partitions, and nothing may be
added to a closed group, nor to words that no multiply began. Not here: the order of time, which is
the order of the array's queue.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa.access import Access
from systolic.isa.instruction import MatMul


@dataclass(frozen=True, slots=True)
class _Group:
    """The words of one group."""

    words: Access

    def holds(self, result: Access) -> bool:
        """Return whether all words of a result are among the group's."""
        mine, theirs = self.words.lanes, result.lanes
        if theirs.first < mine.first or theirs.stop > mine.stop:
            return False
        if (result.start, result.pattern) == (self.words.start, self.words.pattern):
            return True
        return _addresses(result) <= _addresses(self.words)


def _addresses(access: Access) -> set[int]:
    return set(access.offsets().tolist())


class OpenGroups:
    """The groups that are open behind the multiplies admitted so far, by bank, oldest first."""

    def __init__(self, chip: Chip) -> None:
        buffer = chip.result_buffer
        self._most, self._bank_bytes = buffer.groups_per_bank, buffer.bank_bytes
        self._open = defaultdict[int, list[_Group]](list)

    def admit(self, multiply: MatMul) -> None:
        """Let a multiply begin a group or add to one; ProgramError if that is not open."""
        if self._most is None:
            return
        bank = multiply.result.span.first // self._bank_bytes
        groups = self._open[bank]
        if not multiply.accumulate:
            lanes = multiply.result.lanes
            beside = [group for group in groups if group.words.lanes.meets(lanes)]
            if len(beside) >= self._most:
                groups.remove(beside[0])
            groups.append(_Group(multiply.result))
        elif not any(group.holds(multiply.result) for group in groups):
            raise ProgramError(self._refusal(bank, multiply.result))

    def _refusal(self, bank: int, result: Access) -> str:
        spans = [group.words.span for group in self._open[bank]]
        there = ", ".join(f"bytes {low} to {high} of it" for low, high in spans) or "none"
        low, high = result.span
        return (
            f"result: adds to bytes {low} to {high}, which no open accumulation group of bank "
            f"{bank} holds (open: {there}; a bank keeps {self._most}); a group is begun by a "
            "multiply without accumulate, and finished before the bank begins the next"
        )
