"""The arithmetic of DRAM's channels and banks: queues with a burst in hand, from event to event.

Plain loops over the integer tables named below, so that numba can compile them (`compiled`).
Nothing here knows of simpy. A queue that is refused a state-buffer port is HELD: by the arbiter, or
by a lower queue if the queues settle that among themselves. Times are in cycles of the DMA engine.
Rules: docs/timing_model.md, section 6.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from systolic.hw.spec import Chip

Table = npt.NDArray[Any]
"""int64, [row, queue] (or [row, bank], [row, channel]); the rows are named below."""

# Rows of `queue`. RUN, STOP: descriptor in hand, end of the copy; READ, WRITTEN: bytes of it that
# are through; SIDES: 1 DRAM is the source, 2 the target, 3 both; WRITES: whether the burst in hand
# is a write; LOW, HIGH: its bytes, counted from the descriptor's first; BEAT: the last cycle in
# which it moved, with the bytes on the chip that moved in it.
PHASE, LEFT, AGE, HELD, RUN, STOP, READ, WRITTEN, SIDES, WRITES, LOW, HIGH = range(12)
CHANNEL, BANK, ROW, FIRST, LAST, BEAT, BEAT_LOW, BEAT_HIGH = range(12, 20)
# PORT_LOW, PORT_HIGH: banks wanted in this cycle (-1: none); REFUSED: the one that another queue
# has; STALL_*: the refusals that are not yet logged: of which bank and partition, from which cycle
# to which. BEAT_PARTITION: of the bytes of BEAT.
PORT_LOW, PORT_HIGH, REFUSED, STALL_BANK, STALL_FROM, STALL_STOP = range(20, 26)
STALL_PARTITION, BEAT_PARTITION = range(26, 28)
BANK_WAIT, ROW_WAIT, BUS_WAIT, QUEUE_ROWS = range(28, 32)

# Values of PHASE. A burst is asked for in the first cycle in which nothing is LEFT of the fetch.
IDLE, FETCHING, WANTS_BANK, OPENING, WANTS_BUS, MOVING = range(6)

# Rows of `bank` and of `channel`; -1: no row is open, no queue holds it.
OPEN_ROW, BANK_HOLDER, BANK_ROWS = range(3)
BUS_HOLDER, HITS, OPENED, CONFLICTS, BUSY, CHANNEL_ROWS = range(6)

# Rows of `log`.
LOG_QUEUE, LOG_BANK, LOG_PARTITION, LOG_FROM, LOG_STOP, LOG_ROWS = range(6)

# Rows of `runs`, the descriptors, in bytes; PARTITION: of the state buffer.
SOURCE, TARGET, LENGTH, PARTITION, RUN_ROWS = range(5)


class Fixed(NamedTuple):
    """Chip data. arbitrates: the queues settle among themselves which has a state-buffer port.

    is_split: each partition of the state buffer has ports of its own.
    """

    burst_bytes: int
    interleave_bytes: int
    channels: int
    banks: int
    row_bytes: int
    beat_bytes: int
    burst_cycles: int
    activate_cycles: int
    precharge_cycles: int
    fetch_cycles: int
    port_bank_bytes: int
    is_split: bool
    arbitrates: bool

    @classmethod
    def of(cls, chip: Chip) -> Fixed:
        """Return what the arithmetic needs of a chip whose DRAM has an organisation."""
        parts = chip.dram.organisation
        assert parts is not None
        beat_bytes, burst_cycles = chip.burst_cycles
        return cls(
            burst_bytes=parts.burst_bytes,
            interleave_bytes=parts.interleave_bytes,
            channels=parts.channels,
            banks=parts.banks,
            row_bytes=parts.row_bytes,
            beat_bytes=beat_bytes,
            burst_cycles=burst_cycles,
            activate_cycles=parts.activate_cycles,
            precharge_cycles=parts.precharge_cycles,
            fetch_cycles=chip.dma.descriptor_cycles,
            port_bank_bytes=chip.state_buffer.bank_bytes,
            is_split=chip.state_buffer.is_split,
            arbitrates=True,
        )


class Tables(NamedTuple):
    """All the arithmetic works on.

    queue, bank, channel: [row, number], what is under way; port: [direction, bank], cycles in which
    state-buffer ports were used; log: [row, entry], refusals in the order in which they ended, and
    logged[0] how many; runs: [row, descriptor]; end: the cycle in which each descriptor ended, or
    empty.
    """

    fixed: Fixed
    queue: Table
    bank: Table
    channel: Table
    port: Table
    logged: Table
    log: Table
    runs: Table
    end: Table

    def copy(self) -> Tables:
        """Return tables of which what is under way may be changed without changing these."""
        return self._replace(
            queue=self.queue.copy(),
            bank=self.bank.copy(),
            channel=self.channel.copy(),
            port=self.port.copy(),
            logged=self.logged.copy(),
        )


def run(t: Tables, cycle: int, until: int, stop_at_end: bool) -> int:
    """Do all cycles from `cycle` up to `until`, or only until a copy ends; return where it stopped.

    It also stops when the log of refusals is full.
    """
    fixed, queue, bank, channel, runs = t.fixed, t.queue, t.bank, t.channel, t.runs
    log, logged = t.log, t.logged
    while cycle < until and logged[0] + 2 * queue.shape[1] <= log.shape[1]:
        settle(fixed, queue, bank, channel, cycle)
        step = until - cycle
        if fixed.arbitrates:
            step = share_ports(fixed, queue, runs, step)
        step = shortest(queue, step)
        if fixed.arbitrates:
            note_refusals(t, cycle, step)
        ended = advance(t, cycle, step)
        for q in range(queue.shape[1] if ended else 0):
            if queue[PHASE, q] == IDLE:
                log_refusals(queue, log, logged, q)
        cycle += step
        if ended and stop_at_end:
            break
    return cycle


def settle(fixed: Fixed, queue: Table, bank: Table, channel: Table, cycle: int) -> None:
    """Give the banks and the buses of a cycle: to the burst in hand longest, then the lowest."""
    for q in range(queue.shape[1]):
        if queue[PHASE, q] == FETCHING and queue[LEFT, q] == 0:
            queue[PHASE, q], queue[AGE, q] = WANTS_BANK, cycle
    q = oldest(queue, WANTS_BANK, bank[BANK_HOLDER], BANK)
    while q >= 0:
        take_bank(fixed, queue, bank, channel, q)
        q = oldest(queue, WANTS_BANK, bank[BANK_HOLDER], BANK)
    for q in range(queue.shape[1]):
        if queue[PHASE, q] == OPENING and queue[LEFT, q] == 0:
            queue[PHASE, q] = WANTS_BUS
    q = oldest(queue, WANTS_BUS, channel[BUS_HOLDER], CHANNEL)
    while q >= 0:
        channel[BUS_HOLDER, queue[CHANNEL, q]] = q
        queue[PHASE, q], queue[LEFT, q] = MOVING, fixed.burst_cycles
        q = oldest(queue, WANTS_BUS, channel[BUS_HOLDER], CHANNEL)


def oldest(queue: Table, phase: int, holder: Table, which: int) -> int:
    """Return the first in line of those in a phase whose bank (or bus) is free, or -1."""
    best = -1
    for q in range(queue.shape[1]):
        if (
            queue[PHASE, q] == phase
            and holder[queue[which, q]] < 0
            and (best < 0 or queue[AGE, q] < queue[AGE, best])
        ):
            best = q
    return best


def take_bank(fixed: Fixed, queue: Table, bank: Table, channel: Table, q: int) -> None:
    """Let a burst have its bank, and begin to open its row if another one or none is open."""
    b, c = queue[BANK, q], queue[CHANNEL, q]
    bank[BANK_HOLDER, b] = q
    queue[PHASE, q] = OPENING
    queue[LEFT, q] = opening_cycles(fixed, bank[OPEN_ROW, b], queue[ROW, q])
    if bank[OPEN_ROW, b] == queue[ROW, q]:
        channel[HITS, c] += 1
    elif bank[OPEN_ROW, b] < 0:
        channel[OPENED, c] += 1
    else:
        channel[CONFLICTS, c] += 1
    bank[OPEN_ROW, b] = queue[ROW, q]


def opening_cycles(fixed: Fixed, open_row: int, row: int) -> int:
    """Return the cycles until a bank holds a row open. open_row: the one it has open, or -1."""
    if open_row == row:
        return 0
    return fixed.activate_cycles + (fixed.precharge_cycles if open_row >= 0 else 0)


def shortest(queue: Table, limit: int) -> int:
    """Return the cycles until a queue's phase ends of itself, at most `limit`."""
    for q in range(queue.shape[1]):
        phase = queue[PHASE, q]
        ends = phase in (FETCHING, OPENING) or (phase == MOVING and not queue[HELD, q])
        if ends and queue[LEFT, q] < limit:
            limit = queue[LEFT, q]
    return limit


def advance(t: Tables, cycle: int, step: int) -> bool:
    """Do `step` cycles in which no phase changes before the last; return whether a copy ended."""
    queue, channel = t.queue, t.channel
    ended = False
    for q in range(queue.shape[1]):
        phase = queue[PHASE, q]
        if phase == FETCHING:
            queue[LEFT, q] -= step
        elif phase == WANTS_BANK:
            queue[BANK_WAIT, q] += step
        elif phase == OPENING:
            queue[LEFT, q] -= step
            queue[ROW_WAIT, q] += step
        elif phase == WANTS_BUS:
            queue[BUS_WAIT, q] += step
        elif phase == MOVING:
            channel[BUSY, queue[CHANNEL, q]] += step
            if not queue[HELD, q]:
                move(t, cycle, step, q)
                if queue[LEFT, q] == 0:
                    last = cycle + step - 1
                    ended |= end_burst(t, last, q)
    return ended


def move(t: Tables, cycle: int, step: int, q: int) -> None:
    """Move the bytes of `step` cycles of the burst in hand, and count the ports they take."""
    fixed, queue, runs = t.fixed, t.queue, t.runs
    if queue[FIRST, q] < 0:
        queue[FIRST, q] = cycle
    beat = fixed.burst_cycles - queue[LEFT, q]
    if queue[SIDES, q] != 3:
        use_ports(t, beat, step, q)
    low, high = on_chip(fixed, queue, runs, beat + step - 1, q)
    queue[BEAT, q], queue[BEAT_LOW, q], queue[BEAT_HIGH, q] = cycle + step - 1, low, high
    queue[BEAT_PARTITION, q] = runs[PARTITION, queue[RUN, q]]
    queue[LEFT, q] -= step


def end_burst(t: Tables, cycle: int, q: int) -> bool:
    """Give bank and bus free, take the next burst in hand; return whether the copy has ended."""
    fixed, queue, bank, channel = t.fixed, t.queue, t.bank, t.channel
    runs, end = t.runs, t.end
    bank[BANK_HOLDER, queue[BANK, q]] = -1
    channel[BUS_HOLDER, queue[CHANNEL, q]] = -1
    queue[WRITTEN if queue[WRITES, q] else READ, q] = queue[HIGH, q]
    d = queue[RUN, q]
    whole = queue[WRITTEN, q] if queue[SIDES, q] != 1 else queue[READ, q]
    queue[PHASE, q], queue[LEFT, q] = FETCHING, 0
    if whole == runs[LENGTH, d]:
        if end.shape[0]:
            end[d] = cycle
        queue[RUN, q] = d + 1
        queue[READ, q] = queue[WRITTEN, q] = 0
        queue[LEFT, q] = fixed.fetch_cycles
        if d + 1 == queue[STOP, q]:
            queue[PHASE, q], queue[LAST, q] = IDLE, cycle
            return True
    take_in_hand(fixed, queue, runs, q)
    return False


def take_in_hand(fixed: Fixed, queue: Table, runs: Table, q: int) -> None:
    """Choose the next burst of the descriptor, and find where it lies."""
    d, size, stop = queue[RUN, q], fixed.burst_bytes, runs[LENGTH, queue[RUN, q]]
    low, writes = queue[READ, q], 0
    if queue[SIDES, q] == 2:
        low, writes = queue[WRITTEN, q], 1
    elif queue[SIDES, q] == 3:
        # A burst of the target is written as soon as all its bytes have been read.
        begin = queue[WRITTEN, q]
        if min(stop, begin + size - (runs[TARGET, d] + begin) % size) <= queue[READ, q]:
            low, writes = begin, 1
    address = (runs[TARGET, d] if writes else runs[SOURCE, d]) + low
    queue[WRITES, q], queue[LOW, q] = writes, low
    queue[HIGH, q] = min(stop, low + size - address % size)
    place(fixed, queue, address, q)


def place(fixed: Fixed, queue: Table, address: int, q: int) -> None:
    """Find channel, bank and row of an address."""
    slot = address // fixed.interleave_bytes
    c = slot % fixed.channels
    inside = slot // fixed.channels * fixed.interleave_bytes + address % fixed.interleave_bytes
    row = inside // fixed.row_bytes
    queue[CHANNEL, q] = c
    queue[BANK, q] = c * fixed.banks + row % fixed.banks
    queue[ROW, q] = row // fixed.banks


def beat_bytes(fixed: Fixed, queue: Table, runs: Table, beat: int, q: int) -> tuple[int, int]:
    """Return the descriptor's bytes low <= byte < high that move in a cycle of the burst."""
    d = queue[RUN, q]
    base = runs[TARGET, d] if queue[WRITES, q] else runs[SOURCE, d]
    size = fixed.burst_bytes
    begin = (base + queue[LOW, q]) // size * size - base + beat * fixed.beat_bytes
    return max(queue[LOW, q], begin), min(queue[HIGH, q], begin + fixed.beat_bytes)


def on_chip(fixed: Fixed, queue: Table, runs: Table, beat: int, q: int) -> tuple[int, int]:
    """Return the bytes of a partition that move in a cycle of the burst: low >= high for none."""
    if queue[SIDES, q] == 3:
        return 0, 0
    d = queue[RUN, q]
    base = runs[SOURCE, d] if queue[WRITES, q] else runs[TARGET, d]
    low, high = beat_bytes(fixed, queue, runs, beat, q)
    return base + low, base + high


def use_ports(t: Tables, beat: int, step: int, q: int) -> None:
    """Count the cycles in which each state-buffer port is used by these cycles of a burst."""
    fixed, queue, port, runs = t.fixed, t.queue, t.port, t.runs
    d, writes = queue[RUN, q], queue[WRITES, q]
    base, direction = (runs[SOURCE, d], 0) if writes else (runs[TARGET, d], 1)
    bank_bytes = fixed.port_bank_bytes
    low, high = base + queue[LOW, q], base + queue[HIGH, q] - 1
    if low // bank_bytes == high // bank_bytes:
        first, _ = beat_bytes(fixed, queue, runs, beat, q)
        _, stop = beat_bytes(fixed, queue, runs, beat + step - 1, q)
        if first < stop:
            of_dram = runs[TARGET, d] if writes else runs[SOURCE, d]
            begin = (of_dram + queue[LOW, q]) // fixed.burst_bytes * fixed.burst_bytes - of_dram
            used = (stop - 1 - begin) // fixed.beat_bytes - (first - begin) // fixed.beat_bytes + 1
            port[direction, low // bank_bytes] += used
        return
    for each in range(beat, beat + step):
        first, stop = on_chip(fixed, queue, runs, each, q)
        if first < stop:
            for b in range(first // bank_bytes, (stop - 1) // bank_bytes + 1):
                port[direction, b] += 1


def share_ports(fixed: Fixed, queue: Table, runs: Table, limit: int) -> int:
    """Give the state-buffer ports of a cycle, the lowest queue first; return how long that holds.

    A queue that is refused is HELD.
    """
    for q in range(queue.shape[1]):
        queue[PORT_LOW, q] = -1
        if queue[PHASE, q] != MOVING:
            continue
        beat = fixed.burst_cycles - queue[LEFT, q]
        first, last = banks_of(fixed, queue, runs, beat, q)
        queue[PORT_LOW, q], queue[PORT_HIGH, q] = first, last
        queue[REFUSED, q] = taken_bank(fixed, queue, runs, first, last, q)
        queue[HELD, q] = queue[REFUSED, q] >= 0
        if not queue[HELD, q]:
            same = 1
            while (
                beat + same < fixed.burst_cycles
                and same < limit
                and banks_of(fixed, queue, runs, beat + same, q) == (first, last)
            ):
                same += 1
            limit = min(limit, same)
    return limit


def banks_of(fixed: Fixed, queue: Table, runs: Table, beat: int, q: int) -> tuple[int, int]:
    """Return the first and last bank that a cycle of the burst needs; -1, -1 for none."""
    low, high = on_chip(fixed, queue, runs, beat, q)
    if low >= high:
        return -1, -1
    return low // fixed.port_bank_bytes, (high - 1) // fixed.port_bank_bytes


def taken_bank(fixed: Fixed, queue: Table, runs: Table, first: int, last: int, q: int) -> int:
    """Return the first of the banks whose port a lower queue has in this cycle, or -1."""
    found, mine = -1, partition_of(queue, runs, q)
    for other in range(q if first >= 0 else 0):
        if (
            queue[PORT_LOW, other] >= 0
            and not queue[HELD, other]
            and queue[WRITES, other] == queue[WRITES, q]
            and not (fixed.is_split and partition_of(queue, runs, other) != mine)
        ):
            bank = max(first, queue[PORT_LOW, other])
            if bank <= min(last, queue[PORT_HIGH, other]) and (found < 0 or bank < found):
                found = bank
    return found


def partition_of(queue: Table, runs: Table, q: int) -> int:
    """Return the partition of the state buffer in which a queue's descriptor lies."""
    partition: int = runs[PARTITION, queue[RUN, q]]
    return partition


def note_refusals(t: Tables, cycle: int, step: int) -> None:
    """Note for how long queues are HELD; log what has come to an end.

    While a queue is HELD its descriptor is the same, and so is the partition.
    """
    queue, log, logged = t.queue, t.log, t.logged
    for q in range(queue.shape[1]):
        if queue[PHASE, q] == MOVING and queue[HELD, q]:
            if queue[STALL_STOP, q] != cycle or queue[STALL_BANK, q] != queue[REFUSED, q]:
                log_refusals(queue, log, logged, q)
                queue[STALL_BANK, q], queue[STALL_FROM, q] = queue[REFUSED, q], cycle
                queue[STALL_PARTITION, q] = -1
                if t.fixed.is_split:
                    queue[STALL_PARTITION, q] = partition_of(queue, t.runs, q)
            queue[STALL_STOP, q] = cycle + step


def log_refusals(queue: Table, log: Table, logged: Table, q: int) -> None:
    """Log the refusals of a queue that are not yet logged."""
    if queue[STALL_STOP, q] > queue[STALL_FROM, q]:
        n = logged[0]
        log[LOG_QUEUE, n], log[LOG_BANK, n] = q, queue[STALL_BANK, q]
        log[LOG_PARTITION, n] = queue[STALL_PARTITION, q]
        log[LOG_FROM, n], log[LOG_STOP, n] = queue[STALL_FROM, q], queue[STALL_STOP, q]
        logged[0] = n + 1
    queue[STALL_FROM, q] = queue[STALL_STOP, q]
