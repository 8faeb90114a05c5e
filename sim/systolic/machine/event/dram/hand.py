"""Which bursts queues take in hand, and where these lie: arithmetic on the tables of `tables`.

Rules: docs/timing_model.md, section 6.
"""

# ruff: noqa: I001 (row names, as many as fit on a line)
from __future__ import annotations

from systolic.machine.event.dram.tables import (
    ACTIVE, AFTER, AGE, ASKED, BACK, BACK_RUN, BANK, BANK_GROUP, BANK_IN_GROUP, CHANNEL, DESCRIPTOR,
    FETCH, FETCHED, GROUP, HEAD, HIGH, IN_HAND, LEAD, LEAD_STOP, LENGTH, LISTED, LISTS, LOOK, LOW,
    NEVER, NEXT, OVERLAPS, PHASE, ROW, ROW_FIELD, RUN, SIDES, SOURCE, STOP, TAIL, TAKEN, TARGET,
    WANTS_BANK, WRITES, Fixed, Table, Tables,
)  # fmt: skip

DRAM_IS_SOURCE, DRAM_IS_TARGET, DRAM_IS_BOTH = 1, 2, 3


def take_in_hand(t: Tables, cycle: int, q: int) -> None:
    """Take as many bursts in hand as there is room for, and begin to fetch descriptors."""
    fixed, queue, runs = t.fixed, t.queue, t.runs
    queue[LOOK, q] = NEVER
    while queue[IN_HAND, q] < fixed.outstanding:
        if queue[SIDES, q] == DRAM_IS_BOTH and can_write_back(t, q):
            d = queue[BACK_RUN, q]
            queue[BACK, q] = take(t, cycle, q, (d, queue[BACK, q]), 1)
        elif may_go_on(t, cycle, q):
            writes = 1 if queue[SIDES, q] == DRAM_IS_TARGET else 0
            queue[LEAD, q] = take(t, cycle, q, (queue[RUN, q], queue[LEAD, q]), writes)
        elif queue[FETCHED, q] > cycle:
            queue[LOOK, q] = queue[FETCHED, q]
            return
        elif queue[RUN, q] + 1 < queue[STOP, q]:
            queue[RUN, q] += 1
            queue[LEAD, q], queue[LEAD_STOP, q] = 0, runs[LENGTH, queue[RUN, q]]
            queue[FETCHED, q] = cycle + queue[FETCH, q]
        else:
            return


def may_go_on(t: Tables, cycle: int, q: int) -> bool:
    """Return whether a burst of the descriptor in hand may be taken."""
    queue = t.queue
    is_known = queue[OVERLAPS, q] or queue[FETCHED, q] <= cycle
    return bool(is_known and queue[LEAD, q] < queue[LEAD_STOP, q])


def can_write_back(t: Tables, q: int) -> bool:
    """Return whether all bytes of the target's next burst have been read."""
    fixed, queue, slot, runs = t.fixed, t.queue, t.slot, t.runs
    if queue[BACK, q] == runs[LENGTH, queue[BACK_RUN, q]]:
        if queue[BACK_RUN, q] >= queue[RUN, q]:
            return False
        queue[BACK_RUN, q] += 1
        queue[BACK, q] = 0
    d = queue[BACK_RUN, q]
    if queue[RUN, q] < d:
        return False
    high = end_of_burst(fixed, runs, TARGET, d, queue[BACK, q])
    if queue[RUN, q] == d and queue[LEAD, q] < high:
        return False
    for s in range(q * fixed.outstanding, (q + 1) * fixed.outstanding):
        if (
            slot[PHASE, s]
            and not slot[WRITES, s]
            and slot[DESCRIPTOR, s] == d
            and slot[LOW, s] < high
        ):
            return False
    return True


def end_of_burst(fixed: Fixed, runs: Table, side: int, d: int, low: int) -> int:
    """Return the end of the burst that holds byte `low` of a descriptor, in bytes of that."""
    size = fixed.burst_bytes
    return int(min(runs[LENGTH, d], low + size - (runs[side, d] + low) % size))


def take(t: Tables, cycle: int, q: int, at: tuple[int, int], writes: int) -> int:
    """Put a burst in the line for its bank; return the end of its bytes of the descriptor.

    at: the descriptor, and the first byte of it.
    """
    d, low = at
    fixed, queue, slot, runs, misc = t.fixed, t.queue, t.slot, t.runs, t.misc
    side = TARGET if writes else SOURCE
    queue[IN_HAND, q] += 1
    s = t.spare[q, fixed.outstanding - queue[IN_HAND, q]]
    slot[PHASE, s], slot[AGE, s], slot[ASKED, s] = WANTS_BANK, misc[TAKEN], cycle
    misc[TAKEN] += 1
    slot[DESCRIPTOR, s], slot[WRITES, s], slot[LOW, s] = d, writes, low
    slot[HIGH, s] = end_of_burst(fixed, runs, side, d, low)
    place(fixed, slot, runs[side, d] + low, s)
    stand_in_line(t, cycle, s)
    return int(slot[HIGH, s])


def stand_in_line(t: Tables, cycle: int, s: int) -> None:
    """Let a burst ask for its bank, behind all that ask for it."""
    slot, bank, channel = t.slot, t.bank, t.channel
    b, c = slot[BANK, s], slot[CHANNEL, s]
    slot[AFTER, s] = -1
    if bank[HEAD, b] < 0:
        bank[HEAD, b] = s
    else:
        slot[AFTER, bank[TAIL, b]] = s
    bank[TAIL, b] = s
    if not bank[LISTED, b]:
        bank[LISTED, b] = 1
        t.work[c, channel[LISTS, c]] = b
        channel[LISTS, c] += 1
    channel[NEXT, c] = min(channel[NEXT, c], cycle)


def place(fixed: Fixed, slot: Table, address: int, s: int) -> None:
    """Find channel, bank group, bank and row of an address.

    Channels are numbered through over the controllers, as addresses are.
    """
    controller = address // fixed.controller_bytes
    address -= controller * fixed.controller_bytes
    block = address // fixed.interleave_bytes
    stripe = block // fixed.channels
    c = block % fixed.channels
    inside = stripe * fixed.interleave_bytes + address % fixed.interleave_bytes
    number = inside // fixed.burst_bytes
    row = group = bank = 0
    for n in range(4):
        field = fixed.order[n]
        rest = number // fixed.sizes[field] if n < 3 else 0
        value = number - rest * fixed.sizes[field]
        number = rest
        if field == ROW_FIELD:
            row = value
        elif field == BANK_GROUP:
            group = value
        elif field == BANK_IN_GROUP:
            bank = value
    if fixed.hash_banks:
        in_group = fixed.sizes[BANK_IN_GROUP]
        bank ^= row % in_group
        group ^= row // in_group % fixed.groups
    if fixed.hash_channels:
        while stripe:
            c ^= stripe % fixed.channels
            stripe //= fixed.channels
    c += controller * fixed.channels
    slot[CHANNEL, s], slot[GROUP, s], slot[ROW, s] = c, c * fixed.groups + group, row
    slot[BANK, s] = c * fixed.banks + group + fixed.groups * bank


def is_over(t: Tables, cycle: int, q: int) -> bool:
    """Return whether a copy has ended in `cycle`: its last descriptor is fetched and moved."""
    queue, runs = t.queue, t.runs
    if queue[FETCHED, q] > cycle + 1:
        return False
    if queue[IN_HAND, q] or queue[RUN, q] + 1 < queue[STOP, q]:
        return False
    if queue[LEAD, q] < queue[LEAD_STOP, q]:
        return False
    if queue[SIDES, q] != DRAM_IS_BOTH:
        return True
    return bool(
        queue[BACK_RUN, q] == queue[RUN, q] and queue[BACK, q] == runs[LENGTH, queue[RUN, q]]
    )


def take_all(t: Tables, cycle: int) -> None:
    """Let every queue take in hand what it can in a cycle."""
    queue = t.queue
    for q in range(queue.shape[1]):
        if queue[ACTIVE, q] and queue[LOOK, q] <= cycle:
            take_in_hand(t, cycle, q)
