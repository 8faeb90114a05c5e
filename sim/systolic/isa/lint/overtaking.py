"""Can a later write of an engine come before an earlier one? What holds without a semaphore.

An engine's write follows its read by `latency_cycles`, but only if no port is refused: an earlier
instruction A that is refused the port of one bank may be overtaken by a later B that writes to
another. B cannot overtake if

* B starts after the last read of A (`systolic.isa.lint.guarantees`, 3), so that whenever B writes
and A is not
  done, A has been refused a port and wants the same one again;
* all A writes lies in one bank, and B writes to that bank, and the two share a target lane: then
  whatever refuses A refuses B in the same cycle, or A, being older, takes the port itself. Where
  each partition has ports of its own (`port_scope`) a port may be refused to A in a lane that B
  does not write, so B must write to all target lanes of A;
* with one exception: a still older instruction C of the same engine, itself delayed, may take the
  port on some lanes of A only, leaving the others to B. So C must surely be done when A starts, or
  write to other banks or other lanes than A, or share a lane with B too.

Then A is done before B writes to that bank, and before B is done.
"""

from __future__ import annotations

from collections.abc import Iterator

from systolic.isa.access import Access, Buffer
from systolic.isa.effects import writes
from systolic.isa.lint.order import Order

MOST_OLDER = 256
"""With more older instructions than this to look at, overtaking is taken to be possible."""


class Overtaking:
    """Answers for one program, remembering which older instructions matter for each A."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._structure = order.structure
        self._older: dict[int, tuple[Access, ...] | None] = {}

    def is_excluded(self, first: int, second: int) -> bool:
        """Return whether `first` surely is done before `second`, of the same engine, writes."""
        instructions = self._structure.program.instructions
        (target,), (other,) = writes(instructions[first]), writes(instructions[second])
        position = int(self._structure.position[second])
        if int(self._structure.after_reads[first]) > position:
            return False
        bank, others = self._banks(target), self._banks(other)
        if len(bank) != 1 or others != bank or not self._is_refused_with(target, other):
            return False
        if first not in self._older:
            self._older[first] = self._find_older(first, target)
        older = self._older[first]
        return older is not None and all(_share(access, other) for access in older)

    def _is_refused_with(self, first: Access, second: Access) -> bool:
        """Return whether what refuses a bank's port to `first` refuses it to `second`."""
        if first.buffer is Buffer.STATE and self._structure.chip.state_buffer.is_split:
            return second.lanes.first <= first.lanes.first and first.lanes.stop <= second.lanes.stop
        return _share(first, second)

    def _banks(self, access: Access) -> range:
        chip = self._structure.chip
        buffer = chip.result_buffer if access.buffer is Buffer.RESULT else chip.state_buffer
        low, high = access.span
        return range(low // buffer.bank_bytes, (high - 1) // buffer.bank_bytes + 1)

    def _find_older(self, first: int, target: Access) -> tuple[Access, ...] | None:
        """Return the targets of older instructions that may take some of A's lanes; None: many."""
        members = self._structure.members[self._structure.queue[first]]
        position = int(self._structure.position[first])
        if position > MOST_OLDER:
            return None
        return tuple(self._in_the_way(first, target, members[:position]))

    def _in_the_way(self, first: int, target: Access, members: tuple[int, ...]) -> Iterator[Access]:
        (bank,) = self._banks(target)
        for older in members:
            (access,) = writes(self._structure.program.instructions[older])
            if access.buffer is not target.buffer or bank not in self._banks(access):
                continue
            if _share(access, target) and not self._order.done_before(older, first):
                yield access


def _share(one: Access, other: Access) -> bool:
    """Return whether two accesses have a partition in common."""
    return one.lanes.meets(other.lanes)
