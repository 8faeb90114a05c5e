"""Can a later write of an engine come before an earlier one? The rules without a semaphore.

An engine's write follows its read by `latency_cycles`, but only if no port is refused. If an
earlier instruction A is refused the port of one bank, a later instruction B that writes to another
bank may overtake A. B cannot overtake A if all of this holds:

* B starts after the last read of A (`systolic.isa.lint.guarantees`, 3). So if B writes while A is
  not done, A has been refused a port and asks for the same port again.
* All that A writes lies in one bank, B writes to that bank too, and the two share a target lane. So
  in each cycle either A and B are both refused the port, or A takes it, because it is older. Where
  each partition has ports of its own (`port_scope`), A may be refused a port in a lane that B does
  not write, so B must write to all target lanes of A.
* Each writes one access: neither has results of few elements per lane behind its target. A writes
  nothing later than its latency after its last read: it makes no block of several elements, nor
  waits with its first one for an operand that is read beside the first elements of another.
* A writes in every cycle until it is done, or in one cycle only. If A pauses between two writes (a
  window of several elements, a slow rate), it may be behind and yet leave the port to B.
* No third instruction separates them. A still older instruction C of the same engine that is
  delayed may take the port on some lanes of A only, and leave the others to B. So C must surely be
  done when A starts, or write to other banks or other lanes than A, or share a lane with B too.

Then A is done before B writes to that bank, and before B is done.
"""

from __future__ import annotations

from collections.abc import Iterator

from systolic.isa.access import Access, Buffer
from systolic.isa.effects import elements_taken, reads_per_element, rhythm, window, writes
from systolic.isa.engines import pace_of
from systolic.isa.instruction import OnEngine
from systolic.isa.lint.order import Order
from systolic.isa.opcodes import Rhythm

LATE = (Rhythm.BLOCKWISE, Rhythm.BESIDE)
"""In which rhythms something is written later than the latency after the last read."""
MOST_OLDER = 256
"""If more older instructions matter than this, overtaking is taken to be possible unseen."""


class Overtaking:
    """Answers for one program; keeps the older instructions that matter for each A."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._structure = order.structure
        self._older: dict[int, tuple[Access, ...] | None] = {}

    def is_excluded(self, first: int, second: int) -> bool:
        """Return whether `first` surely is done before `second`, of the same engine, writes."""
        instructions = self._structure.program.instructions
        written, after = writes(instructions[first]), writes(instructions[second])
        if len(written) > 1 or len(after) > 1 or self._writes_late(first):
            return False
        (target,), (other,) = written, after
        position = int(self._structure.position[second])
        if int(self._structure.after_reads[first]) > position:
            return False
        bank, others = self._banks(target), self._banks(other)
        if len(bank) != 1 or others != bank or not self._is_refused_with(target, other):
            return False
        if self._pauses(first):
            return False
        if first not in self._older:
            self._older[first] = self._find_older(first, target)
        older = self._older[first]
        return older is not None and all(_share(access, other) for access in older)

    def _writes_late(self, index: int) -> bool:
        return rhythm(self._structure.program.instructions[index]) in LATE

    def _is_refused_with(self, first: Access, second: Access) -> bool:
        """Return whether a bank's port that is refused to `first` is also refused to `second`."""
        if first.buffer is Buffer.STATE and self._structure.chip.state_buffer.is_split:
            return second.lanes.first <= first.lanes.first and first.lanes.stop <= second.lanes.stop
        return _share(first, second)

    def _pauses(self, index: int) -> bool:
        """Return whether an instruction may have cycles without a write between two writes."""
        instruction, chip = self._structure.program.instructions[index], self._structure.chip
        assert isinstance(instruction, OnEngine)
        pace = pace_of(instruction, chip.engine(instruction.engine), chip)
        if elements_taken(instruction) <= pace.elements:
            return False
        operands = reads_per_element(instruction)
        meet = len(operands) == 2 and self._meet(*operands)
        return pace.cycles > 1 or window(instruction) > pace.elements or meet

    def _meet(self, left: Access, right: Access) -> bool:
        """Return whether two operands may need the same port, and so a cycle each."""
        mine, theirs = self._banks(left), self._banks(right)
        apart = mine.stop <= theirs.start or theirs.stop <= mine.start
        return left.buffer is right.buffer and _share(left, right) and not apart

    def _banks(self, access: Access) -> range:
        chip = self._structure.chip
        buffer = chip.result_buffer if access.buffer is Buffer.RESULT else chip.state_buffer
        low, high = access.span
        return range(low // buffer.bank_bytes, (high - 1) // buffer.bank_bytes + 1)

    def _find_older(self, first: int, target: Access) -> tuple[Access, ...] | None:
        """Return the targets of older instructions that may take lanes of A; None for too many."""
        members = self._structure.members[self._structure.queue[first]]
        position = int(self._structure.position[first])
        if position > MOST_OLDER:
            return None
        return tuple(self._in_the_way(first, target, members[:position]))

    def _in_the_way(self, first: int, target: Access, members: tuple[int, ...]) -> Iterator[Access]:
        (bank,) = self._banks(target)
        for older in members:
            for access in writes(self._structure.program.instructions[older]):
                if access.buffer is not target.buffer or bank not in self._banks(access):
                    continue
                if _share(access, target) and not self._order.done_before(older, first):
                    yield access


def _share(one: Access, other: Access) -> bool:
    """Return whether two accesses have a partition in common."""
    return one.lanes.meets(other.lanes)
