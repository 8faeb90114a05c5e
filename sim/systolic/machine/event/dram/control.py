"""A channel's controller: refresh, banks, rows and the data bus; arithmetic on the tables.

A channel is looked at in the cycles in which something may change in it, and only then: what came
due in between, refreshes alone, is made up for. Rules: docs/timing_model.md, section 6.
"""

# ruff: noqa: I001 (row names, as many as fit on a line)
from __future__ import annotations

from systolic.machine.event.dram.tables import (
    ACT_1, ACT_2, ACT_3, ACT_4, AFTER, AGE, ASKED, AT_ONCE, BANK, BANKS_HELD, BANK_ACTIVATED,
    BANK_WAIT, BEGAN, BUS, BUS_WAIT, CONFLICTS, CYCLES, DUE, ENDED, GIVEN, GROUP, GROUP_ACTIVATED,
    GROUP_BEGAN, HEAD, HITS, HOLDER, LEFT, LISTED, LISTS, MOVING, NEVER, NEXT, ON_BUS, OPENED,
    OPENING, OPENS, OPEN_ROW, PHASE, REFRESHED, ROW, ROW_WAIT, STANDS, START, TAIL, UNTIL,
    WANTS_BUS, WANTS_ROW, WRITES, WROTE, Fixed, Tables,
)  # fmt: skip

LATER = NEVER - 1
"""The end of a burst comes before this cycle."""


def settle(t: Tables, cycle: int) -> None:
    """Give the banks and buses of a cycle, channel by channel."""
    channel = t.channel
    for c in range(channel.shape[1]):
        if channel[NEXT, c] <= cycle:
            arrange(t, cycle, c)


def arrange(t: Tables, cycle: int, c: int) -> None:
    """Do what a channel does in a cycle, and find the next cycle in which something may change."""
    slot, bank, channel, work = t.slot, t.bank, t.channel, t.work
    again = NEVER
    if t.fixed.refresh_interval:
        again = refresh(t, cycle, c)
    wants_row = wants_bus = False
    for n in range(channel[LISTS, c]):
        b = work[c, n]
        if bank[HOLDER, b] < 0 and again == NEVER:
            give_bank(t, cycle, c, b)
        s = bank[HOLDER, b]
        if s >= 0:
            wants_row |= slot[PHASE, s] == WANTS_ROW
            wants_bus |= slot[PHASE, s] == WANTS_BUS or slot[PHASE, s] == OPENING
    if wants_row:
        wants_bus |= activate(t, cycle, c)
    if wants_bus and channel[BUS, c] < 0:
        give_bus(t, cycle, c)
    channel[NEXT, c] = next_change(t, cycle, c, again)


def refresh(t: Tables, cycle: int, c: int) -> int:
    """Begin the refreshes that are due; return when to look again, NEVER if banks may be given."""
    fixed, channel = t.fixed, t.channel
    while channel[REFRESHED, c] <= cycle and channel[DUE, c] <= cycle:
        if channel[BANKS_HELD, c]:
            return LATER
        begin = max(channel[DUE, c], channel[REFRESHED, c], channel[ENDED, c] + 1)
        is_open, closable = open_rows(t, c)
        begin = max(begin, closable)
        if begin > cycle:
            return int(begin)
        channel[REFRESHED, c] = begin + fixed.refresh + (fixed.precharge_cycles if is_open else 0)
        channel[DUE, c] += fixed.refresh_interval
        if is_open:
            t.bank[OPEN_ROW, c * fixed.banks : (c + 1) * fixed.banks] = -1
        late = cycle - channel[DUE, c]
        if channel[DUE, c] >= channel[REFRESHED, c] and late > 0:
            # Nothing is open any more: each refresh but the last began when it was due.
            channel[DUE, c] += late // fixed.refresh_interval * fixed.refresh_interval
    return int(channel[REFRESHED, c]) if channel[REFRESHED, c] > cycle else NEVER


def open_rows(t: Tables, c: int) -> tuple[bool, int]:
    """Return whether a row of the channel is open, and from when on all of them may be closed."""
    fixed, bank = t.fixed, t.bank
    found, closable = False, 0
    for b in range(c * fixed.banks, (c + 1) * fixed.banks):
        if bank[OPEN_ROW, b] >= 0:
            found = True
            closable = max(closable, bank[BANK_ACTIVATED, b] + fixed.active)
    return found, closable


def is_overdue(t: Tables, cycle: int, s: int) -> bool:
    """Return whether a burst has been in hand for too long to be overtaken."""
    return bool(cycle - t.slot[ASKED, s] > t.fixed.patience)


def give_bank(t: Tables, cycle: int, c: int, b: int) -> None:
    """Let the first in line for a bank have it, or the first that finds its row open."""
    fixed, slot, bank = t.fixed, t.slot, t.bank
    s, before = bank[HEAD, b], -1
    if s < 0:
        return
    if not fixed.in_order and not is_overdue(t, cycle, s):
        last, each = -1, s
        while each >= 0 and slot[ROW, each] != bank[OPEN_ROW, b]:
            last, each = each, slot[AFTER, each]
        if each >= 0:
            s, before = each, last
    if before < 0:
        bank[HEAD, b] = slot[AFTER, s]
    else:
        slot[AFTER, before] = slot[AFTER, s]
    if bank[TAIL, b] == s:
        bank[TAIL, b] = before
    work_for(t, cycle, c, s)


def work_for(t: Tables, cycle: int, c: int, s: int) -> None:
    """Let a bank work for a burst: it closes a row, wants to be activated, or holds the row."""
    fixed, slot, bank, channel = t.fixed, t.slot, t.bank, t.channel
    b, q = slot[BANK, s], s // fixed.outstanding
    row, before = slot[ROW, s], bank[OPEN_ROW, b]
    bank[HOLDER, b] = s
    channel[BANKS_HELD, c] += 1
    t.queue[BANK_WAIT, q] += cycle - slot[ASKED, s]
    slot[GIVEN, s] = slot[UNTIL, s] = cycle
    slot[PHASE, s] = WANTS_ROW
    slot[OPENS, s] = opening_cycles(fixed, before, row)
    if before == row:
        channel[HITS, c] += 1
        slot[PHASE, s] = WANTS_BUS
    elif before < 0:
        channel[OPENED, c] += 1
    else:
        channel[CONFLICTS, c] += 1
        closed = max(cycle, bank[BANK_ACTIVATED, b] + fixed.active) + fixed.precharge_cycles
        slot[UNTIL, s] = closed
        slot[OPENS, s] -= fixed.precharge_cycles
    bank[OPEN_ROW, b] = row


def opening_cycles(fixed: Fixed, open_row: int, row: int) -> int:
    """Return the cycles until a bank holds a row open, where nothing else binds.

    open_row: the one it has open, or -1.
    """
    if open_row == row:
        return 0
    return fixed.activate_cycles + (fixed.precharge_cycles if open_row >= 0 else 0)


def activate(t: Tables, cycle: int, c: int) -> bool:
    """Activate the banks that may be, for the oldest burst first; return whether any was."""
    slot, bank, channel, work = t.slot, t.bank, t.channel, t.work
    some = False
    while True:
        best = -1
        for n in range(channel[LISTS, c]):
            s = bank[HOLDER, work[c, n]]
            if (
                s >= 0
                and slot[PHASE, s] == WANTS_ROW
                and (best < 0 or slot[AGE, s] < slot[AGE, best])
                and activates_from(t, s, c) <= cycle
            ):
                best = s
        if best < 0:
            return some
        some = True
        b, g = slot[BANK, best], slot[GROUP, best]
        bank[BANK_ACTIVATED, b] = t.group[GROUP_ACTIVATED, g] = cycle
        channel[ACT_4, c], channel[ACT_3, c] = channel[ACT_3, c], channel[ACT_2, c]
        channel[ACT_2, c], channel[ACT_1, c] = channel[ACT_1, c], cycle
        slot[PHASE, best], slot[UNTIL, best] = OPENING, cycle + slot[OPENS, best]
        waited = slot[UNTIL, best] - slot[GIVEN, best]
        t.queue[ROW_WAIT, best // t.fixed.outstanding] += waited


def activates_from(t: Tables, s: int, c: int) -> int:
    """Return the cycle from which a burst's bank may be activated, as things stand."""
    fixed, slot, channel = t.fixed, t.slot, t.channel
    found = max(slot[UNTIL, s], t.bank[BANK_ACTIVATED, slot[BANK, s]] + fixed.row_cycle)
    found = max(found, t.group[GROUP_ACTIVATED, slot[GROUP, s]] + fixed.activate_gap_in_group)
    found = max(found, channel[ACT_1, c] + fixed.activate_gap)
    return int(max(found, channel[ACT_4, c] + fixed.four_activates))


def give_bus(t: Tables, cycle: int, c: int) -> None:
    """Give a free data bus to the burst that may have it, if there is one."""
    fixed, slot, bank, channel, work = t.fixed, t.slot, t.bank, t.channel, t.work
    oldest = may = -1
    for n in range(channel[LISTS, c]):
        s = bank[HOLDER, work[c, n]]
        if s < 0 or not asks_for_bus(t, cycle, s):
            continue
        if oldest < 0 or slot[AGE, s] < slot[AGE, oldest]:
            oldest = s
        if (may < 0 or slot[AGE, s] < slot[AGE, may]) and moves_from(t, s, c) <= cycle:
            may = s
    if may < 0 or (may != oldest and (fixed.in_order or is_overdue(t, cycle, oldest))):
        return
    q = may // fixed.outstanding
    t.queue[BUS_WAIT, q] += cycle - slot[UNTIL, may]
    slot[PHASE, may], slot[START, may], slot[LEFT, may] = MOVING, cycle, t.queue[CYCLES, q]
    slot[STANDS, may] = 0
    channel[BUS, c], channel[BEGAN, c] = may, cycle
    t.group[GROUP_BEGAN, slot[GROUP, may]] = cycle
    t.moving[q, t.queue[ON_BUS, q]] = may
    t.queue[ON_BUS, q] += 1
    if t.queue[ON_BUS, q] == t.queue[AT_ONCE, q] < t.moving.shape[1]:
        # The queue asks for no other bus any more: there others may come first now.
        for other in range(channel.shape[1]):
            channel[NEXT, other] = min(channel[NEXT, other], cycle + (1 if other < c else 0))


def asks_for_bus(t: Tables, cycle: int, s: int) -> bool:
    """Return whether a burst that has its bank has its row too, and its queue a bus to spare."""
    slot, q = t.slot, s // t.fixed.outstanding
    is_ready = slot[PHASE, s] == WANTS_BUS or slot[PHASE, s] == OPENING
    return bool(is_ready and slot[UNTIL, s] <= cycle and t.queue[ON_BUS, q] < t.queue[AT_ONCE, q])


def moves_from(t: Tables, s: int, c: int) -> int:
    """Return the cycle from which a burst may move, as things stand."""
    fixed, slot, channel = t.fixed, t.slot, t.channel
    found = max(
        channel[BEGAN, c] + fixed.burst_gap,
        t.group[GROUP_BEGAN, slot[GROUP, s]] + fixed.burst_gap_in_group,
    )
    if slot[WRITES, s] != channel[WROTE, c]:
        idle = fixed.read_to_write if slot[WRITES, s] else fixed.write_to_read
        found = max(found, channel[ENDED, c] + 1 + idle)
    return int(found)


def next_change(t: Tables, cycle: int, c: int, again: int) -> int:
    """Return the next cycle in which something may change, and drop banks that are not needed.

    again: when to look again for the sake of a refresh. The end of a burst is not looked for.
    """
    slot, bank, channel, work = t.slot, t.bank, t.channel, t.work
    found, n, is_free = NEVER, 0, channel[BUS, c] < 0
    while n < channel[LISTS, c]:
        b = work[c, n]
        s = bank[HOLDER, b]
        if s < 0 and bank[HEAD, b] < 0:
            bank[LISTED, b] = 0
            channel[LISTS, c] -= 1
            work[c, n] = work[c, channel[LISTS, c]]
            continue
        n += 1
        at = NEVER
        if s < 0:
            at = again
        elif slot[PHASE, s] == WANTS_ROW:
            at = activates_from(t, s, c)
        elif slot[PHASE, s] != MOVING and is_free:
            at = max(slot[UNTIL, s], moves_from(t, s, c))
        if cycle < at < found:
            found = at
    return found
