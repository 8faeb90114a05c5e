"""Which bytes of a burst move in which cycle, and the state-buffer ports they take.

Plain loops over the tables of `dram_tables`, so that numba can compile them (`dram_numba`).
"""

from __future__ import annotations

from systolic.machine.event.dram.tables import (
    BURST_BYTES,
    BURST_CYCLES,
    HELD,
    HIGH,
    LEFT,
    LOG_BANK,
    LOG_FROM,
    LOG_QUEUE,
    LOG_STOP,
    LOW,
    MOVING,
    PHASE,
    PORT_BYTES,
    PORT_HIGH,
    PORT_LOW,
    REFUSED,
    RUN,
    SIDES,
    STALL_BANK,
    STALL_FROM,
    STALL_STOP,
    WIDTH,
    WRITES,
    Table,
)


def beat_bytes(
    fixed: Table, queue: Table, source: Table, target: Table, beat: int, q: int
) -> tuple[int, int]:
    """Return the descriptor's bytes low <= byte < high that move in a cycle of the burst."""
    d = queue[RUN, q]
    base = target[d] if queue[WRITES, q] else source[d]
    size = fixed[BURST_BYTES]
    begin = (base + queue[LOW, q]) // size * size - base + beat * fixed[WIDTH]
    return max(queue[LOW, q], begin), min(queue[HIGH, q], begin + fixed[WIDTH])


def on_chip(
    fixed: Table, queue: Table, source: Table, target: Table, beat: int, q: int
) -> tuple[int, int]:
    """Return the bytes of a partition that move in a cycle of the burst: low >= high for none."""
    if queue[SIDES, q] == 3:
        return 0, 0
    d = queue[RUN, q]
    base = source[d] if queue[WRITES, q] else target[d]
    low, high = beat_bytes(fixed, queue, source, target, beat, q)
    return base + low, base + high


def use_ports(
    fixed: Table, queue: Table, port: Table, source: Table, target: Table,
    beat: int, step: int, q: int,
) -> None:  # fmt: skip
    """Count the cycles in which each state-buffer port is used by these cycles of a burst."""
    d, writes = queue[RUN, q], queue[WRITES, q]
    base, direction = (source[d], 0) if writes else (target[d], 1)
    bank_bytes = fixed[PORT_BYTES]
    low, high = base + queue[LOW, q], base + queue[HIGH, q] - 1
    if low // bank_bytes == high // bank_bytes:
        first, _ = beat_bytes(fixed, queue, source, target, beat, q)
        _, stop = beat_bytes(fixed, queue, source, target, beat + step - 1, q)
        if first < stop:
            of_dram = target[d] if writes else source[d]
            begin = (of_dram + queue[LOW, q]) // fixed[BURST_BYTES] * fixed[BURST_BYTES] - of_dram
            used = (stop - 1 - begin) // fixed[WIDTH] - (first - begin) // fixed[WIDTH] + 1
            port[direction, low // bank_bytes] += used
        return
    for each in range(beat, beat + step):
        first, stop = on_chip(fixed, queue, source, target, each, q)
        if first < stop:
            for b in range(first // bank_bytes, (stop - 1) // bank_bytes + 1):
                port[direction, b] += 1


def share_ports(fixed: Table, queue: Table, source: Table, target: Table, limit: int) -> int:
    """Give the state-buffer ports of a cycle, the lowest queue first; return how long that holds.

    Who is refused is HELD.
    """
    for q in range(queue.shape[1]):
        queue[PORT_LOW, q] = -1
        if queue[PHASE, q] != MOVING:
            continue
        beat = fixed[BURST_CYCLES] - queue[LEFT, q]
        first, last = banks_of(fixed, queue, source, target, beat, q)
        queue[PORT_LOW, q], queue[PORT_HIGH, q] = first, last
        queue[REFUSED, q] = taken_bank(queue, first, last, q)
        queue[HELD, q] = queue[REFUSED, q] >= 0
        if not queue[HELD, q]:
            same = 1
            while (
                beat + same < fixed[BURST_CYCLES]
                and same < limit
                and banks_of(fixed, queue, source, target, beat + same, q) == (first, last)
            ):
                same += 1
            limit = min(limit, same)
    return limit


def banks_of(
    fixed: Table, queue: Table, source: Table, target: Table, beat: int, q: int
) -> tuple[int, int]:
    """Return the first and last bank that a cycle of the burst needs; -1, -1 for none."""
    low, high = on_chip(fixed, queue, source, target, beat, q)
    if low >= high:
        return -1, -1
    return low // fixed[PORT_BYTES], (high - 1) // fixed[PORT_BYTES]


def taken_bank(queue: Table, first: int, last: int, q: int) -> int:
    """Return the first of the banks whose port a lower queue has in this cycle, or -1."""
    found = -1
    for other in range(q if first >= 0 else 0):
        if (
            queue[PORT_LOW, other] >= 0
            and not queue[HELD, other]
            and queue[WRITES, other] == queue[WRITES, q]
        ):
            bank = max(first, queue[PORT_LOW, other])
            if bank <= min(last, queue[PORT_HIGH, other]) and (found < 0 or bank < found):
                found = bank
    return found


def note_refusals(queue: Table, log: Table, logged: Table, cycle: int, step: int) -> None:
    """Note for how long queues are HELD; log what has come to an end."""
    for q in range(queue.shape[1]):
        if queue[PHASE, q] == MOVING and queue[HELD, q]:
            if queue[STALL_STOP, q] != cycle or queue[STALL_BANK, q] != queue[REFUSED, q]:
                log_refusals(queue, log, logged, q)
                queue[STALL_BANK, q], queue[STALL_FROM, q] = queue[REFUSED, q], cycle
            queue[STALL_STOP, q] = cycle + step


def log_refusals(queue: Table, log: Table, logged: Table, q: int) -> None:
    """Log the refusals of a queue that are not yet logged."""
    if queue[STALL_STOP, q] > queue[STALL_FROM, q]:
        n = logged[0]
        log[LOG_QUEUE, n], log[LOG_BANK, n] = q, queue[STALL_BANK, q]
        log[LOG_FROM, n], log[LOG_STOP, n] = queue[STALL_FROM, q], queue[STALL_STOP, q]
        logged[0] = n + 1
    queue[STALL_FROM, q] = queue[STALL_STOP, q]
