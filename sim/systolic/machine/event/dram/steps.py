"""The arithmetic of DRAM's channels and banks: queues with bursts in hand, from event to event.

Plain loops over the integer tables of `tables`, so that numba can compile them (`compiled`).
Nothing here knows of simpy. A queue that is refused a state-buffer port is HELD: by the arbiter, or
by a lower queue if the queues settle that among themselves. Times are in cycles of the DMA engine.
Rules: docs/timing_model.md, section 6.
"""

# ruff: noqa: I001 (row names, as many as fit on a line)
from __future__ import annotations

from systolic.machine.event.dram.control import settle
from systolic.machine.event.dram.hand import is_over, take_all
from systolic.machine.event.dram.tables import (
    ACTIVE, AGE, AT_ONCE, BANK, BANKS_HELD, BANK_BYTES, BEAT, BEAT_HIGH, BEAT_LANE, BEAT_LOW, BUS,
    BUSY, CHANNEL, CREDIT, CYCLES, DESCRIPTOR, ENDED, FETCHED, FIRST, FIRST_BANK, FREE, HAS_PORTS,
    HELD, HIGH, HOLDER, IN_HAND, LANES, LAST, LEAST, LEFT, LOGGED, LOG_FROM, LOG_PORT, LOG_QUEUE,
    LOG_STOP, LOOK, LOW, NEAR_HIGH, NEAR_LOW, NEVER, NEXT, ON_BUS, OVERLAPS, PARTITION, PHASE,
    PHASES, PORT_BYTES, PORT_HIGH, PORT_LANE, PORT_LOW, REFUSED, REST, RUN, SIDES, SOURCE,
    STALL_FROM, STALL_PORT, STALL_STOP, STANDS, START, TARGET, USE_FROM, USE_STOP, WIDTH, WRITES,
    WROTE, Table, Tables,
)  # fmt: skip

BOTH_SIDES = 3


def run(t: Tables, cycle: int, until: int, stop_at_end: bool) -> int:
    """Do all cycles from `cycle` up to `until`, or only until a copy ends; return where it stopped.

    It also stops when the log is full.
    """
    fixed, queue, log, misc = t.fixed, t.queue, t.log, t.misc
    while cycle < until and misc[LOGGED] + fixed.reserve <= log.shape[1]:
        take_all(t, cycle)
        settle(t, cycle)
        step = need_ports(t, cycle, until - cycle)
        step = min(step, next_event(t) - cycle)
        step = shortest(t, step, False)
        count_ports(t, cycle, step)
        if fixed.arbitrates:
            note_refusals(t, cycle, step)
        ended = advance(t, cycle, step)
        for q in range(queue.shape[1] if ended else 0):
            if not queue[ACTIVE, q]:
                log_refusals(t, q)
        cycle += step
        if ended and stop_at_end:
            break
    return cycle


def arrange_cycle(t: Tables, cycle: int) -> None:
    """Do what comes in a cycle before bytes move: bursts are taken, banks and buses given."""
    take_all(t, cycle)
    settle(t, cycle)


def next_event(t: Tables) -> int:
    """Return the cycle of the next event that does not depend on bytes that move."""
    queue, channel = t.queue, t.channel
    found = NEVER
    for q in range(queue.shape[1]):
        if queue[ACTIVE, q]:
            found = min(found, queue[LOOK, q])
    for c in range(channel.shape[1]):
        found = min(found, channel[NEXT, c])
    return found


def shortest(t: Tables, limit: int, held_too: bool) -> int:
    """Return the cycles until a burst that moves has ended, at most `limit`."""
    queue, slot = t.queue, t.slot
    for q in range(queue.shape[1]):
        if held_too or not queue[HELD, q]:
            for n in range(queue[ON_BUS, q]):
                limit = min(limit, slot[LEFT, t.moving[q, n]])
    return limit


def advance(t: Tables, cycle: int, step: int) -> bool:
    """Do `step` cycles in which no phase changes before the last; return whether a copy ended."""
    queue, slot, moving = t.queue, t.slot, t.moving
    ended = False
    for q in range(queue.shape[1]):
        if queue[HELD, q] or not (queue[ON_BUS, q] or is_fetching(t, q)):
            continue
        if queue[ON_BUS, q]:
            queue[CREDIT, q] = queue[REST, q]
            if queue[FIRST, q] < 0:
                queue[FIRST, q] = cycle
        n = 0
        while n < queue[ON_BUS, q]:
            s = moving[q, n]
            if slot[STANDS, s]:
                n += 1
                continue
            slot[LEFT, s] -= step
            slot[BEAT, s] = cycle + step - 1
            slot[BEAT_LOW, s], slot[BEAT_HIGH, s] = slot[PORT_LOW, s], slot[PORT_HIGH, s]
            slot[BEAT_LANE, s] = slot[PORT_LANE, s]
            if slot[LEFT, s]:
                n += 1
            else:
                moving[q, n] = moving[q, queue[ON_BUS, q] - 1]
                end_burst(t, cycle + step - 1, q, s)
        if is_over(t, cycle + step - 1, q):
            queue[ACTIVE, q], queue[LAST, q] = 0, cycle + step - 1
            ended = True
    return ended


def is_fetching(t: Tables, q: int) -> bool:
    """Return whether a descriptor may yet be fetched when all of its bytes have moved."""
    return bool(t.queue[OVERLAPS, q] and t.queue[ACTIVE, q] and not t.queue[IN_HAND, q])


def end_burst(t: Tables, cycle: int, q: int, s: int) -> None:
    """Give bank, bus and place in hand free, from the next cycle on."""
    fixed, queue, slot, channel = t.fixed, t.queue, t.slot, t.channel
    c = slot[CHANNEL, s]
    t.bank[HOLDER, slot[BANK, s]] = -1
    channel[BUS, c] = -1
    channel[BANKS_HELD, c] -= 1
    channel[BUSY, c] += cycle + 1 - slot[START, s]
    channel[ENDED, c], channel[WROTE, c] = cycle, slot[WRITES, s]
    channel[NEXT, c] = cycle + 1
    if queue[ON_BUS, q] == queue[AT_ONCE, q]:
        # Other bursts of the queue may have waited for that, in any channel.
        for other in range(channel.shape[1] if queue[AT_ONCE, q] < t.moving.shape[1] else 0):
            channel[NEXT, other] = min(channel[NEXT, other], cycle + 1)
    queue[ON_BUS, q] -= 1
    slot[PHASE, s] = FREE
    t.spare[q, fixed.outstanding - queue[IN_HAND, q]] = s
    queue[IN_HAND, q] -= 1
    queue[LOOK, q] = cycle + 1
    if t.end.shape[0] and (slot[WRITES, s] or queue[SIDES, q] != BOTH_SIDES):
        d = slot[DESCRIPTOR, s]
        fetched = queue[FETCHED, q] - 1 if d == queue[RUN, q] else 0
        t.end[d] = max(cycle, fetched)


# -- ports of the buffers on the chip -------------------------------------------------------------


def need_ports(t: Tables, cycle: int, limit: int) -> int:
    """Find which ports moving bursts need; return for how many cycles that stays so.

    If the queues settle that among themselves, the lowest has a port, and those refused are HELD.
    """
    fixed, queue = t.fixed, t.queue
    t.marked[0] += queue.shape[1]
    for q in range(queue.shape[1]):
        if not queue[ON_BUS, q]:
            if fixed.arbitrates:
                queue[HELD, q] = 0
            continue
        same = find_all_banks(t, q, limit)
        if queue[PORT_BYTES, q] or queue[PHASES, q]:
            share(t, cycle, q)
        if not queue[HAS_PORTS, q]:
            if fixed.arbitrates:
                queue[HELD, q] = 0
            if not queue[HELD, q]:
                limit = same
            continue
        if fixed.arbitrates:
            queue[REFUSED, q] = taken_port(t, q)
            queue[HELD, q] = queue[REFUSED, q] >= 0
        if not queue[HELD, q]:
            mark_ports(t, q)
            limit = same
    return limit


def find_all_banks(t: Tables, q: int, limit: int) -> int:
    """Find the banks that a queue's bursts need in this cycle; return for how long at least."""
    for n in range(t.queue[ON_BUS, q]):
        limit = find_banks(t, t.moving[q, n], limit)
    return min(limit, 1) if is_bound(t.queue, q) else limit


def find_banks(t: Tables, s: int, limit: int) -> int:
    """Find the banks that a burst needs in this cycle; return for how many cycles it needs them."""
    queue, slot, q = t.queue, t.slot, s // t.fixed.outstanding
    beat = queue[CYCLES, q] - slot[LEFT, s]
    low, high = bytes_of(t, beat, s)
    if not queue[HAS_PORTS, q]:
        slot[PORT_LOW, s], slot[NEAR_LOW, s], slot[NEAR_HIGH, s] = -1, low, high
        return limit
    first, last = banks_of(queue, low, high, q)
    slot[PORT_LOW, s], slot[PORT_HIGH, s] = first, last
    slot[NEAR_LOW, s], slot[NEAR_HIGH, s] = low, high
    slot[PORT_LANE, s] = t.runs[PARTITION, slot[DESCRIPTOR, s]]
    same, most = 1, min(limit, slot[LEFT, s])
    tight = is_tight(queue, q)
    if tight and first != last:
        most = 1  # how many bytes lie in which bank changes from cycle to cycle
    while same < most:
        low, stop = bytes_of(t, beat + same, s)
        if banks_of(queue, low, stop, q) != (first, last):
            break
        if tight and stop - low != high - slot[NEAR_LOW, s]:
            break
        same += 1
    return min(limit, same)


def bytes_of(t: Tables, beat: int, s: int) -> tuple[int, int]:
    """Return the bytes of its partition that a cycle of a burst moves, first and end."""
    fixed, slot, runs, width = t.fixed, t.slot, t.runs, t.queue[WIDTH, s // t.fixed.outstanding]
    d = slot[DESCRIPTOR, s]
    base, near = runs[SOURCE, d], runs[TARGET, d]
    if slot[WRITES, s]:
        base, near = near, base
    size = fixed.burst_bytes
    begin = (base + slot[LOW, s]) // size * size - base + beat * width
    low, high = max(slot[LOW, s], begin), min(slot[HIGH, s], begin + width)
    return near + low, near + max(low, high)


def banks_of(queue: Table, low: int, high: int, q: int) -> tuple[int, int]:
    """Return the first and last bank of bytes low <= byte < high; -1, -1 for none."""
    if low >= high:
        return -1, -1
    first, size = queue[FIRST_BANK, q], queue[BANK_BYTES, q]
    return first + low // size, first + (high - 1) // size


def is_tight(queue: Table, q: int) -> bool:
    """Return whether the bursts of a queue may be more than a port lets pass."""
    return bool(queue[ON_BUS, q] * queue[WIDTH, q] > queue[PORT_BYTES, q] > 0)


def is_bound(queue: Table, q: int) -> bool:
    """Return whether the bursts of a queue may be more than its shares of bandwidths allow."""
    return bool(queue[PHASES, q] and queue[ON_BUS, q] * queue[WIDTH, q] > queue[LEAST, q])


def share(t: Tables, cycle: int, q: int) -> None:
    """Let the bursts of a queue move whose bytes pass ports and shares, older ones first."""
    queue, slot = t.queue, t.slot
    count, done, left, pace = queue[ON_BUS, q], -1, 0, 0
    tight, bound, is_short = is_tight(queue, q), is_bound(queue, q), False
    queue[REST, q] = 0
    if not (tight or bound):
        for n in range(count):
            slot[STANDS, t.moving[q, n]] = 0
        return
    if bound:
        pace = t.pace[q, cycle % queue[PHASES, q]]
        left = queue[CREDIT, q] + pace
    for _ in range(count):
        s = -1
        for n in range(count):
            other = t.moving[q, n]
            if slot[AGE, other] > done and (s < 0 or slot[AGE, other] < slot[AGE, s]):
                s = other
        done = slot[AGE, s]
        slot[STANDS, s] = 1 if tight and not passes(t, q, s) else 0
        if bound and not slot[STANDS, s]:
            size = shared_bytes(t, q, s)
            is_short = is_short or size > left
            if is_short and size:
                slot[STANDS, s] = 1
            else:
                left -= size
    if bound and count * queue[WIDTH, q] > pace:
        queue[REST, q] = min(left, queue[WIDTH, q] - 1)


def shared_bytes(t: Tables, q: int, s: int) -> int:
    """Return the bytes that a burst moves in this cycle over what its copy has shares of.

    Of a copy with both sides in such DRAM those count that are read.
    """
    slot = t.slot
    if t.queue[SIDES, q] == BOTH_SIDES and slot[WRITES, s]:
        return 0
    return int(slot[NEAR_HIGH, s] - slot[NEAR_LOW, s])


def passes(t: Tables, q: int, s: int) -> bool:
    """Return whether a burst's bytes pass its ports beside its queue's older bursts."""
    queue, slot = t.queue, t.slot
    if slot[PORT_LOW, s] < 0:
        return True
    for b in range(slot[PORT_LOW, s], slot[PORT_HIGH, s] + 1):
        used = bytes_in_bank(t, q, s, b)
        for n in range(queue[ON_BUS, q]):
            o = t.moving[q, n]
            is_before = slot[AGE, o] < slot[AGE, s] and not slot[STANDS, o]
            if is_before and slot[PORT_LANE, o] == slot[PORT_LANE, s]:
                used += bytes_in_bank(t, q, o, b)
        if used > queue[PORT_BYTES, q]:
            return False
    return True


def bytes_in_bank(t: Tables, q: int, s: int, b: int) -> int:
    """Return how many of the bytes that a burst moves in this cycle lie in a bank."""
    slot, size = t.slot, t.queue[BANK_BYTES, q]
    begin = (b - t.queue[FIRST_BANK, q]) * size
    return int(max(0, min(slot[NEAR_HIGH, s], begin + size) - max(slot[NEAR_LOW, s], begin)))


def port_of(t: Tables, b: int, s: int) -> int:
    """Return the number of the port that a burst needs of a bank: ordered by bank, then partition.

    Where a bank has one port for all partitions, that is the number of the bank.
    """
    fixed = t.fixed
    if b >= fixed.state_banks:
        behind: int = fixed.state_banks * fixed.port_lanes + b - fixed.state_banks
        return behind
    lanes = t.queue[LANES, s // fixed.outstanding]
    port: int = b * fixed.port_lanes + t.slot[PORT_LANE, s] % lanes
    return port


def taken_port(t: Tables, q: int) -> int:
    """Return the lowest port a queue needs that a lower queue has in this cycle, or -1."""
    slot, marks = t.slot, t.marks
    found = -1
    for n in range(t.queue[ON_BUS, q]):
        s = t.moving[q, n]
        if slot[PORT_LOW, s] < 0 or slot[STANDS, s]:
            continue
        side = 0 if slot[WRITES, s] else 1
        for b in range(slot[PORT_LOW, s], slot[PORT_HIGH, s] + 1):
            port = port_of(t, b, s)
            if marks[side, port] >= t.marked[0] and (found < 0 or port < found):
                found = port
    return found


def mark_ports(t: Tables, q: int) -> None:
    """Let a queue have the ports it needs."""
    slot = t.slot
    for n in range(t.queue[ON_BUS, q]):
        s = t.moving[q, n]
        if slot[PORT_LOW, s] >= 0 and not slot[STANDS, s]:
            side = 0 if slot[WRITES, s] else 1
            for b in range(slot[PORT_LOW, s], slot[PORT_HIGH, s] + 1):
                t.marks[side, port_of(t, b, s)] = t.marked[0] + q


def count_ports(t: Tables, cycle: int, step: int) -> None:
    """Count the cycles in which ports are used: once, however many bursts use them."""
    queue, slot, marks = t.queue, t.slot, t.marks
    for q in range(queue.shape[1]):
        if queue[HELD, q] or not queue[HAS_PORTS, q]:
            continue
        for n in range(queue[ON_BUS, q]):
            s = t.moving[q, n]
            if slot[PORT_LOW, s] < 0 or slot[STANDS, s]:
                continue
            side = 0 if slot[WRITES, s] else 1
            for b in range(slot[PORT_LOW, s], slot[PORT_HIGH, s] + 1):
                port = port_of(t, b, s)
                if marks[side, port] == t.marked[0] + q:
                    count_port(t, cycle, step, side, b)
                    marks[side, port] = -1


def count_port(t: Tables, cycle: int, step: int, side: int, b: int) -> None:
    """Count cycles of a port; of the result buffer's note when, as sums may pass over them."""
    r, using = b - t.fixed.state_banks, t.using
    if r < 0:
        t.port[side, b] += step
        return
    if using[USE_STOP, r] != cycle:
        log_use(t, r)
        using[USE_FROM, r] = cycle
    using[USE_STOP, r] = cycle + step


def log_use(t: Tables, r: int) -> None:
    """Log when a bank of the result buffer was read, if it is not yet logged."""
    using, log, n = t.using, t.log, t.misc[LOGGED]
    if using[USE_STOP, r] > using[USE_FROM, r]:
        log[LOG_QUEUE, n], log[LOG_PORT, n] = -1, r
        log[LOG_FROM, n], log[LOG_STOP, n] = using[USE_FROM, r], using[USE_STOP, r]
        t.misc[LOGGED] = n + 1
    using[USE_FROM, r] = using[USE_STOP, r]


def note_refusals(t: Tables, cycle: int, step: int) -> None:
    """Note for how long queues are HELD; log what has come to an end."""
    queue = t.queue
    for q in range(queue.shape[1]):
        if queue[ON_BUS, q] and queue[HELD, q]:
            if queue[STALL_STOP, q] != cycle or queue[STALL_PORT, q] != queue[REFUSED, q]:
                log_refusals(t, q)
                queue[STALL_PORT, q], queue[STALL_FROM, q] = queue[REFUSED, q], cycle
            queue[STALL_STOP, q] = cycle + step


def log_refusals(t: Tables, q: int) -> None:
    """Log the refusals of a queue that are not yet logged."""
    queue, log = t.queue, t.log
    if queue[STALL_STOP, q] > queue[STALL_FROM, q]:
        n = t.misc[LOGGED]
        log[LOG_QUEUE, n], log[LOG_PORT, n] = q, queue[STALL_PORT, q]
        log[LOG_FROM, n], log[LOG_STOP, n] = queue[STALL_FROM, q], queue[STALL_STOP, q]
        t.misc[LOGGED] = n + 1
    queue[STALL_FROM, q] = queue[STALL_STOP, q]
