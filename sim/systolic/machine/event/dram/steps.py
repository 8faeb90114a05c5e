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
    ACTIVE, BANK, BANKS_HELD, BEAT, BEAT_HIGH, BEAT_LANE, BEAT_LOW, BUS, BUSY, CHANNEL, DESCRIPTOR,
    ENDED, FETCHED, FIRST, FREE, HELD, HIGH, HOLDER, IN_HAND, LAST, LEFT, LOGGED, LOG_FROM,
    LOG_PORT, LOG_QUEUE, LOG_STOP, LOOK, LOW, NEVER, NEXT, ON_BUS, PARTITION, PHASE, PORT_HIGH,
    PORT_LANE, PORT_LOW, REFUSED, RUN, SIDES, SOURCE, STALL_FROM, STALL_PORT, STALL_STOP, START,
    TARGET, WRITES, WROTE, Fixed, Table, Tables,
)  # fmt: skip

BOTH_SIDES = 3


def run(t: Tables, cycle: int, until: int, stop_at_end: bool) -> int:
    """Do all cycles from `cycle` up to `until`, or only until a copy ends; return where it stopped.

    It also stops when the log of refusals is full.
    """
    fixed, queue, log, misc = t.fixed, t.queue, t.log, t.misc
    while cycle < until and misc[LOGGED] + 2 * queue.shape[1] <= log.shape[1]:
        take_all(t, cycle)
        settle(t, cycle)
        step = need_ports(t, until - cycle)
        step = min(step, next_event(t) - cycle)
        step = shortest(t, step, False)
        count_ports(t, step)
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
        if queue[ON_BUS, q] and queue[FIRST, q] < 0:
            queue[FIRST, q] = cycle
        n = 0
        while n < queue[ON_BUS, q]:
            s = moving[q, n]
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
    return bool(t.fixed.overlaps and t.queue[ACTIVE, q] and not t.queue[IN_HAND, q])


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
    if queue[ON_BUS, q] == fixed.at_once:
        # Other bursts of the queue may have waited for that, in any channel.
        for other in range(channel.shape[1] if fixed.at_once < t.moving.shape[1] else 0):
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


# -- state-buffer ports ---------------------------------------------------------------------------


def need_ports(t: Tables, limit: int) -> int:
    """Find which state-buffer ports moving bursts need; return for how many cycles that stays so.

    If the queues settle that among themselves, the lowest has a port, and those refused are HELD.
    """
    fixed, queue, slot = t.fixed, t.queue, t.slot
    t.marked[0] += queue.shape[1]
    for q in range(queue.shape[1]):
        if not queue[ON_BUS, q]:
            if fixed.arbitrates:
                queue[HELD, q] = 0
            continue
        if queue[SIDES, q] == BOTH_SIDES:
            queue[HELD, q] = 0
            for n in range(queue[ON_BUS, q]):
                slot[PORT_LOW, t.moving[q, n]] = -1
            continue
        same = limit
        for n in range(queue[ON_BUS, q]):
            same = find_banks(t, t.moving[q, n], same)
        if fixed.arbitrates:
            queue[REFUSED, q] = taken_port(t, q)
            queue[HELD, q] = queue[REFUSED, q] >= 0
        if not queue[HELD, q]:
            mark_ports(t, q)
            limit = same
    return limit


def find_banks(t: Tables, s: int, limit: int) -> int:
    """Find the banks that a burst needs in this cycle; return for how many cycles it needs them."""
    fixed, slot = t.fixed, t.slot
    beat = fixed.burst_cycles - slot[LEFT, s]
    first, last = banks_of(fixed, slot, t.runs, beat, s)
    slot[PORT_LOW, s], slot[PORT_HIGH, s] = first, last
    slot[PORT_LANE, s] = t.runs[PARTITION, slot[DESCRIPTOR, s]]
    same = 1
    while (
        same < slot[LEFT, s]
        and same < limit
        and banks_of(fixed, slot, t.runs, beat + same, s) == (first, last)
    ):
        same += 1
    return min(limit, same)


def banks_of(fixed: Fixed, slot: Table, runs: Table, beat: int, s: int) -> tuple[int, int]:
    """Return the first and last bank that a cycle of a burst needs; -1, -1 for none."""
    d = slot[DESCRIPTOR, s]
    base, near = runs[SOURCE, d], runs[TARGET, d]
    if slot[WRITES, s]:
        base, near = near, base
    size = fixed.burst_bytes
    begin = (base + slot[LOW, s]) // size * size - base + beat * fixed.beat_bytes
    low, high = max(slot[LOW, s], begin), min(slot[HIGH, s], begin + fixed.beat_bytes)
    if low >= high:
        return -1, -1
    return (near + low) // fixed.port_bank_bytes, (near + high - 1) // fixed.port_bank_bytes


def port_of(fixed: Fixed, slot: Table, b: int, s: int) -> int:
    """Return the number of the port that a burst needs of a bank: ordered by bank, then partition.

    Where a bank has one port for all partitions, that is the number of the bank.
    """
    port: int = b * fixed.port_lanes + slot[PORT_LANE, s] % fixed.port_lanes
    return port


def taken_port(t: Tables, q: int) -> int:
    """Return the lowest port a queue needs that a lower queue has in this cycle, or -1."""
    slot, marks = t.slot, t.marks
    found = -1
    for n in range(t.queue[ON_BUS, q]):
        s = t.moving[q, n]
        if slot[PORT_LOW, s] < 0:
            continue
        side = 0 if slot[WRITES, s] else 1
        for b in range(slot[PORT_LOW, s], slot[PORT_HIGH, s] + 1):
            port = port_of(t.fixed, slot, b, s)
            if marks[side, port] >= t.marked[0] and (found < 0 or port < found):
                found = port
    return found


def mark_ports(t: Tables, q: int) -> None:
    """Let a queue have the ports it needs."""
    slot = t.slot
    for n in range(t.queue[ON_BUS, q]):
        s = t.moving[q, n]
        if slot[PORT_LOW, s] >= 0:
            side = 0 if slot[WRITES, s] else 1
            for b in range(slot[PORT_LOW, s], slot[PORT_HIGH, s] + 1):
                t.marks[side, port_of(t.fixed, slot, b, s)] = t.marked[0] + q


def count_ports(t: Tables, step: int) -> None:
    """Count the cycles in which state-buffer ports are used: once, however many bursts use them."""
    queue, slot, marks = t.queue, t.slot, t.marks
    for q in range(queue.shape[1]):
        if queue[HELD, q] or queue[SIDES, q] == BOTH_SIDES:
            continue
        for n in range(queue[ON_BUS, q]):
            s = t.moving[q, n]
            if slot[PORT_LOW, s] < 0:
                continue
            side = 0 if slot[WRITES, s] else 1
            for b in range(slot[PORT_LOW, s], slot[PORT_HIGH, s] + 1):
                port = port_of(t.fixed, slot, b, s)
                if marks[side, port] == t.marked[0] + q:
                    t.port[side, b] += step
                    marks[side, port] = -1


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
