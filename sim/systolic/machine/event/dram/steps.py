"""The arithmetic of DRAM's channels and banks: queues with a burst in hand, from event to event.

Plain loops over the tables of `dram_tables`, so that numba can compile them (`dram_numba`). Nothing
here knows of simpy. A queue that is refused a state-buffer port is HELD: by the arbiter, or by a
lower queue if the queues settle that among themselves. Rules: docs/timing_model.md, section 6.
"""

from __future__ import annotations

from systolic.machine.event.dram.beats import (
    log_refusals,
    note_refusals,
    on_chip,
    share_ports,
    use_ports,
)
from systolic.machine.event.dram.tables import (
    ACTIVATE,
    AGE,
    ARBITRATES,
    BANK,
    BANK_HOLDER,
    BANK_WAIT,
    BANKS,
    BEAT,
    BEAT_HIGH,
    BEAT_LOW,
    BURST_BYTES,
    BURST_CYCLES,
    BUS_HOLDER,
    BUS_WAIT,
    BUSY,
    CHANNEL,
    CHANNELS,
    CONFLICTS,
    FETCH,
    FETCHING,
    FIRST,
    HELD,
    HIGH,
    HITS,
    IDLE,
    INTERLEAVE,
    LAST,
    LEFT,
    LOW,
    MOVING,
    OPEN_ROW,
    OPENED,
    OPENING,
    PHASE,
    PRECHARGE,
    READ,
    ROW,
    ROW_BYTES,
    ROW_WAIT,
    RUN,
    SIDES,
    STOP,
    WANTS_BANK,
    WANTS_BUS,
    WRITES,
    WRITTEN,
    Table,
)


def run(
    fixed: Table, queue: Table, bank: Table, channel: Table, port: Table,
    logged: Table, log: Table, source: Table, target: Table, length: Table, end: Table,
    cycle: int, until: int, stop_at_end: bool,
) -> int:  # fmt: skip
    """Do all cycles from `cycle` up to `until`, or only until a copy ends; return where it stopped.

    source, target, length: descriptors in bytes, [RUN]; end: takes the cycle in which each ends
    (may be empty); port: [direction, bank], cycles in which state-buffer ports were used. It also
    stops when the log of refusals is full.
    """
    while cycle < until and logged[0] + 2 * queue.shape[1] <= log.shape[1]:
        settle(fixed, queue, bank, channel, cycle)
        step = until - cycle
        if fixed[ARBITRATES]:
            step = share_ports(fixed, queue, source, target, step)
        step = shortest(queue, step)
        if fixed[ARBITRATES]:
            note_refusals(queue, log, logged, cycle, step)
        ended = advance(fixed, queue, bank, channel, port, source, target, length, end, cycle, step)
        for q in range(queue.shape[1] if ended else 0):
            if queue[PHASE, q] == IDLE:
                log_refusals(queue, log, logged, q)
        cycle += step
        if ended and stop_at_end:
            break
    return cycle


def settle(fixed: Table, queue: Table, bank: Table, channel: Table, cycle: int) -> None:
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
        queue[PHASE, q], queue[LEFT, q] = MOVING, fixed[BURST_CYCLES]
        q = oldest(queue, WANTS_BUS, channel[BUS_HOLDER], CHANNEL)


def oldest(queue: Table, phase: int, holder: Table, which: int) -> int:
    """Return the first in line of those in a phase whose bank (or bus) nobody holds, or -1."""
    best = -1
    for q in range(queue.shape[1]):
        if (
            queue[PHASE, q] == phase
            and holder[queue[which, q]] < 0
            and (best < 0 or queue[AGE, q] < queue[AGE, best])
        ):
            best = q
    return best


def take_bank(fixed: Table, queue: Table, bank: Table, channel: Table, q: int) -> None:
    """Let a burst have its bank, and begin to open its row if another one or none is open."""
    b, c = queue[BANK, q], queue[CHANNEL, q]
    bank[BANK_HOLDER, b] = q
    queue[PHASE, q], queue[LEFT, q] = OPENING, 0
    if bank[OPEN_ROW, b] == queue[ROW, q]:
        channel[HITS, c] += 1
    elif bank[OPEN_ROW, b] < 0:
        channel[OPENED, c] += 1
        queue[LEFT, q] = fixed[ACTIVATE]
    else:
        channel[CONFLICTS, c] += 1
        queue[LEFT, q] = fixed[PRECHARGE] + fixed[ACTIVATE]
    bank[OPEN_ROW, b] = queue[ROW, q]


def shortest(queue: Table, limit: int) -> int:
    """Return the cycles until a queue's phase ends of itself, at most `limit`."""
    for q in range(queue.shape[1]):
        phase = queue[PHASE, q]
        ends = phase in (FETCHING, OPENING) or (phase == MOVING and not queue[HELD, q])
        if ends and queue[LEFT, q] < limit:
            limit = queue[LEFT, q]
    return limit


def advance(
    fixed: Table, queue: Table, bank: Table, channel: Table, port: Table,
    source: Table, target: Table, length: Table, end: Table, cycle: int, step: int,
) -> bool:  # fmt: skip
    """Do `step` cycles in which nobody's phase changes before the last; return if a copy ended."""
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
                move(fixed, queue, port, source, target, cycle, step, q)
                if queue[LEFT, q] == 0:
                    last = cycle + step - 1
                    ended |= end_burst(
                        fixed, queue, bank, channel, source, target, length, end, last, q
                    )
    return ended


def move(
    fixed: Table, queue: Table, port: Table, source: Table, target: Table,
    cycle: int, step: int, q: int,
) -> None:  # fmt: skip
    """Move the bytes of `step` cycles of the burst in hand, and count the ports they take."""
    if queue[FIRST, q] < 0:
        queue[FIRST, q] = cycle
    beat = fixed[BURST_CYCLES] - queue[LEFT, q]
    if queue[SIDES, q] != 3:
        use_ports(fixed, queue, port, source, target, beat, step, q)
    low, high = on_chip(fixed, queue, source, target, beat + step - 1, q)
    queue[BEAT, q], queue[BEAT_LOW, q], queue[BEAT_HIGH, q] = cycle + step - 1, low, high
    queue[LEFT, q] -= step


def end_burst(
    fixed: Table, queue: Table, bank: Table, channel: Table,
    source: Table, target: Table, length: Table, end: Table, cycle: int, q: int,
) -> bool:  # fmt: skip
    """Give bank and bus free, take the next burst in hand; return whether the copy has ended."""
    bank[BANK_HOLDER, queue[BANK, q]] = -1
    channel[BUS_HOLDER, queue[CHANNEL, q]] = -1
    queue[WRITTEN if queue[WRITES, q] else READ, q] = queue[HIGH, q]
    d = queue[RUN, q]
    whole = queue[WRITTEN, q] if queue[SIDES, q] != 1 else queue[READ, q]
    queue[PHASE, q], queue[LEFT, q] = FETCHING, 0
    if whole == length[d]:
        if end.shape[0]:
            end[d] = cycle
        queue[RUN, q] = d + 1
        queue[READ, q] = queue[WRITTEN, q] = 0
        queue[LEFT, q] = fixed[FETCH]
        if d + 1 == queue[STOP, q]:
            queue[PHASE, q], queue[LAST, q] = IDLE, cycle
            return True
    take_in_hand(fixed, queue, source, target, length, q)
    return False


def take_in_hand(
    fixed: Table, queue: Table, source: Table, target: Table, length: Table, q: int
) -> None:
    """Choose the next burst of the descriptor, and find where it lies."""
    d, size, stop = queue[RUN, q], fixed[BURST_BYTES], length[queue[RUN, q]]
    low, writes = queue[READ, q], 0
    if queue[SIDES, q] == 2:
        low, writes = queue[WRITTEN, q], 1
    elif queue[SIDES, q] == 3:
        # A burst of the target is written as soon as all its bytes have been read.
        begin = queue[WRITTEN, q]
        if min(stop, begin + size - (target[d] + begin) % size) <= queue[READ, q]:
            low, writes = begin, 1
    address = (target[d] if writes else source[d]) + low
    queue[WRITES, q], queue[LOW, q] = writes, low
    queue[HIGH, q] = min(stop, low + size - address % size)
    place(fixed, queue, address, q)


def place(fixed: Table, queue: Table, address: int, q: int) -> None:
    """Find channel, bank and row of an address."""
    slot = address // fixed[INTERLEAVE]
    c = slot % fixed[CHANNELS]
    inside = slot // fixed[CHANNELS] * fixed[INTERLEAVE] + address % fixed[INTERLEAVE]
    row = inside // fixed[ROW_BYTES]
    queue[CHANNEL, q] = c
    queue[BANK, q] = c * fixed[BANKS] + row % fixed[BANKS]
    queue[ROW, q] = row // fixed[BANKS]
