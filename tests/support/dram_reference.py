"""Twin of the engines' `dram` rooms: DRAM burst by burst, by docs/timing_model.md, section 6.

Shares no code with `sim`: neither engines nor formulas. No ports, no dispatch, no semaphores: each
queue has its copies one after the other. Cycles count up from 0, one at a time; what a rule says of
the past is looked up in the lists of what has happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Run(NamedTuple):
    """A descriptor: source address, target address (None: not DRAM), bytes.

    near: partition and byte in it of the side in the state buffer; None where the ports of the
    other side, if there is one, let any number of bytes pass.
    """

    source: int | None
    target: int | None
    size: int
    near: tuple[int, int] | None = None


@dataclass
class Rules:
    """Chip data, as section 6 names them."""

    channels: int
    banks: int
    row_bytes: int
    burst_bytes: int
    interleave_bytes: int
    activate_cycles: int
    precharge_cycles: int
    size_bytes: int
    bytes_per_cycle: int  # of a channel
    queue_bytes_per_cycle: int
    latency: int
    fetch: int
    descriptor_cost: str = "sum"
    outstanding: int = 1
    scheduling: str = "fcfs"
    patience_cycles: int = 0
    bank_groups: int = 1
    address_order: tuple[str, ...] = ("column", "bank_group", "bank", "row")
    hash_channels: bool = False
    hash_banks: bool = False
    row_active_cycles: int = 0
    row_cycle_cycles: int = 0
    activate_gap_cycles: int = 0
    activate_gap_in_group_cycles: int = 0
    four_activates_cycles: int = 0
    burst_gap_cycles: int = 0
    burst_gap_in_group_cycles: int = 0
    write_to_read_cycles: int = 0
    read_to_write_cycles: int = 0
    refresh_interval_cycles: int = 0
    refresh_cycles: int = 0
    port_bytes: int | None = None
    port_bank_bytes: int = 1

    def width(self, run: Run) -> int:
        """Return the bytes that a burst of a descriptor moves in a cycle."""
        widths = [self.bytes_per_cycle, self.queue_bytes_per_cycle]
        return min(
            widths if self.port_bytes is None or run.near is None else [*widths, self.port_bytes]
        )


class Result(NamedTuple):
    """Cycle in which each copy of each queue ends, and how bursts found their banks."""

    ends: list[list[int]]
    hits: int
    opened: int
    conflicts: int
    bursts: list[tuple[int, int, int, int, int]]
    """(queue, address, is a write, first cycle, last cycle) in the order in which they ended."""


@dataclass(eq=False)
class Burst:
    queue: int
    run: int
    low: int
    high: int
    address: int
    writes: bool
    asked: int
    channel: int
    group: int
    bank: int
    row: int
    given: int | None = None
    wants_activation: int | None = None
    ready: int | None = None
    start: int | None = None
    beats: int = 0


@dataclass
class Channel:
    """What has happened in it so far."""

    open: dict[int, int] = field(default_factory=dict)
    worker: dict[int, Burst] = field(default_factory=dict)
    activations: list[tuple[int, int, int]] = field(default_factory=list)  # cycle, bank, group
    done: list[Burst] = field(default_factory=list)
    moving: Burst | None = None
    refreshes: int = 0
    refreshing_until: int = 0
    ends: dict[Any, int] = field(default_factory=dict)


def where(rules: Rules, address: int) -> tuple[int, int, int, int]:
    """Return channel, bank group, bank (in the channel) and row."""
    stripe, rest = divmod(address, rules.interleave_bytes * rules.channels)
    channel, byte = divmod(rest, rules.interleave_bytes)
    number = (stripe * rules.interleave_bytes + byte) // rules.burst_bytes
    in_group = rules.banks // rules.bank_groups
    values = {
        "column": rules.row_bytes // rules.burst_bytes,
        "bank_group": rules.bank_groups,
        "bank": in_group,
        "row": rules.size_bytes // (rules.channels * rules.banks * rules.row_bytes),
    }
    digit = {}
    for name in rules.address_order[:-1]:
        digit[name] = number % values[name]
        number //= values[name]
    digit[rules.address_order[-1]] = number
    if rules.hash_banks:
        digit["bank"] ^= digit["row"] % in_group
        digit["bank_group"] ^= digit["row"] // in_group % rules.bank_groups
    while rules.hash_channels and rules.channels > 1 and stripe:
        channel ^= stripe % rules.channels
        stripe //= rules.channels
    group = digit["bank_group"]
    return channel, group, group + rules.bank_groups * digit["bank"], digit["row"]


class Queue:
    """A queue with its copies; knows which burst it takes in hand next."""

    def __init__(self, rules: Rules, number: int, copies: list[list[Run]]) -> None:
        self.rules, self.number, self.copies = rules, number, list(copies)
        self.ends: list[int] = []
        self.hand: list[Burst] = []
        self.runs: list[Run] = []
        self.begin(-1)

    def begin(self, last: int) -> None:
        """Begin the next copy in the cycle after `last`."""
        self.runs = self.copies.pop(0) if self.copies else []
        self.ready = last + 1 + self.rules.latency
        self.fetched = -1
        self.fetched_at = self.ready
        self.asked_to = 0  # bytes of the descriptor fetched last that have been asked for
        self.written = [0] * len(self.runs)  # bytes asked for, DRAM to DRAM
        self.read = [[] for _ in self.runs]  # finished reads (low, high)

    def take(self, cycle: int) -> None:
        if not self.runs or cycle < self.ready:
            return
        while len(self.hand) < self.rules.outstanding:
            burst = self.write_back(cycle)
            is_fetched = cycle >= self.fetched_at
            if burst is None and (is_fetched or self.rules.descriptor_cost == "max"):
                burst = self.go_on(cycle)
            if burst is None and is_fetched and self.asks_for_next():
                self.fetched_at = cycle + self.rules.fetch
                continue
            if burst is None:
                return
            self.hand.append(burst)

    def asks_for_next(self) -> bool:
        """Rule 3: go on to the next descriptor, if there is one."""
        if self.fetched + 1 == len(self.runs):
            return False
        self.fetched += 1
        self.asked_to = 0
        return True

    def write_back(self, cycle: int) -> Burst | None:
        """Rule 1: from DRAM to DRAM, the first burst of the target that is not asked for."""
        for n, (source, target, size, _) in enumerate(self.runs[: self.fetched + 1]):
            if source is None or target is None or self.written[n] == size:
                continue
            low = self.written[n]
            high = min(size, low + self.room(target + low))
            have = set()
            for a, b in self.read[n]:
                have |= set(range(a, b))
            if not set(range(low, high)) <= have:
                return None
            self.written[n] = high
            return self.burst(n, target, low, high, True, cycle)
        return None

    def go_on(self, cycle: int) -> Burst | None:
        """Rule 2: the next burst of the descriptor fetched last."""
        if self.fetched < 0:
            return None
        source, target, size, _ = self.runs[self.fetched]
        if self.asked_to == size:
            return None
        base = target if source is None else source
        low = self.asked_to
        self.asked_to = min(size, low + self.room(base + low))
        return self.burst(self.fetched, base, low, self.asked_to, source is None, cycle)

    def room(self, address: int) -> int:
        return self.rules.burst_bytes - address % self.rules.burst_bytes

    def burst(self, n: int, base: int, low: int, high: int, writes: bool, cycle: int) -> Burst:
        channel, group, bank, row = where(self.rules, base + low)
        return Burst(
            self.number, n, low, high, base + low, writes, cycle, channel, group, bank, row
        )

    def end(self, burst: Burst) -> None:
        self.hand.remove(burst)
        if not burst.writes:
            self.read[burst.run].append((burst.low, burst.high))

    def look_for_end(self, cycle: int) -> None:
        """End the copy if nothing of it is left after this cycle."""
        if not self.runs or cycle + 1 < max(self.fetched_at, self.ready + 1):
            return
        source, target, size, _ = self.runs[-1]
        over = self.fetched == len(self.runs) - 1 and self.asked_to == size and not self.hand
        if source is not None and target is not None:
            over = over and self.written[-1] == size
        if over:
            self.ends.append(cycle)
            self.begin(cycle)


class Dram:
    def __init__(self, rules: Rules, queues: list[Queue]) -> None:
        self.rules, self.queues = rules, queues
        self.channels = [Channel() for _ in range(rules.channels)]
        self.found = {"hits": 0, "opened": 0, "conflicts": 0}
        self.log: list[tuple[int, int, int, int, int]] = []

    def step(self, cycle: int) -> None:
        for queue in self.queues:
            queue.take(cycle)
        for number, channel in enumerate(self.channels):
            hand = [b for q in self.queues for b in q.hand if b.channel == number]
            # q.hand is in the order of taking; a stable sort leaves the queues in order
            line = sorted(hand, key=lambda b: b.asked)
            if not self.refreshed(channel, cycle):
                self.give_banks(channel, line, cycle)
            self.activate(channel, line, cycle)
            self.give_bus(channel, line, cycle)
        for queue in self.queues:
            for burst in self.movers(queue):
                burst.beats += 1
        for channel in self.channels:
            self.end(channel, cycle)
        for queue in self.queues:
            queue.look_for_end(cycle)

    def refreshed(self, channel: Channel, cycle: int) -> bool:
        """Return whether refresh keeps the banks of the channel from being given."""
        rules = self.rules
        if not rules.refresh_interval_cycles:
            return False
        if cycle < channel.refreshing_until:
            return True
        if cycle < (channel.refreshes + 1) * rules.refresh_interval_cycles:
            return False
        opened = {bank: at for at, bank, _ in channel.activations}
        if not channel.worker and all(
            cycle >= opened[bank] + rules.row_active_cycles for bank in channel.open
        ):
            channel.refreshes += 1
            closing = rules.precharge_cycles if channel.open else 0
            channel.refreshing_until = cycle + closing + rules.refresh_cycles
            channel.open.clear()
        return True

    def overdue(self, burst: Burst, cycle: int) -> bool:
        return 0 < self.rules.patience_cycles < cycle - burst.asked

    def give_banks(self, channel: Channel, line: list[Burst], cycle: int) -> None:
        for bank in sorted({b.bank for b in line}):
            asking = [b for b in line if b.bank == bank and b.given is None]
            if bank in channel.worker or not asking:
                continue
            chosen = asking[0]
            hits = [b for b in asking if channel.open.get(bank) == b.row]
            if self.rules.scheduling == "fr_fcfs" and hits and not self.overdue(chosen, cycle):
                chosen = hits[0]
            self.give(channel, chosen, cycle)

    def give(self, channel: Channel, burst: Burst, cycle: int) -> None:
        rules, bank = self.rules, burst.bank
        burst.given = cycle
        channel.worker[bank] = burst
        if bank not in channel.open:
            self.found["opened"] += 1
            burst.wants_activation = cycle
        elif channel.open[bank] == burst.row:
            self.found["hits"] += 1
            burst.ready = cycle
        else:
            self.found["conflicts"] += 1
            opened = max(at for at, other, _ in channel.activations if other == bank)
            closes = max(cycle, opened + rules.row_active_cycles)
            burst.wants_activation = closes + rules.precharge_cycles
        channel.open[bank] = burst.row

    def activate(self, channel: Channel, line: list[Burst], cycle: int) -> None:
        rules = self.rules
        for burst in line:
            if burst.wants_activation is None or burst.wants_activation > cycle:
                continue
            before = channel.activations
            gaps = [
                (rules.row_cycle_cycles, [at for at, bank, _ in before if bank == burst.bank][-1:]),
                (
                    rules.activate_gap_in_group_cycles,
                    [at for at, _, group in before if group == burst.group][-1:],
                ),
                (rules.activate_gap_cycles, [at for at, _, _ in before][-1:]),
                (rules.four_activates_cycles, [at for at, _, _ in before][-4:-3]),
            ]
            if all(cycle >= at + gap for gap, times in gaps for at in times):
                channel.activations.append((cycle, burst.bank, burst.group))
                burst.wants_activation = None
                burst.ready = cycle + rules.activate_cycles

    def may_move(self, channel: Channel, burst: Burst, cycle: int) -> bool:
        rules = self.rules
        group = [b for b in channel.done if b.group == burst.group]
        starts = [
            (rules.burst_gap_cycles, channel.done[-1:]),
            (rules.burst_gap_in_group_cycles, group[-1:]),
        ]
        if any(cycle < b.start + gap for gap, last in starts for b in last):
            return False
        if channel.done and channel.done[-1].writes != burst.writes:
            idle = rules.read_to_write_cycles if burst.writes else rules.write_to_read_cycles
            return cycle > channel.ends["last"] + idle
        return True

    def give_bus(self, channel: Channel, line: list[Burst], cycle: int) -> None:
        if channel.moving is not None:
            return
        rules = self.rules
        moving = [c.moving.queue for c in self.channels if c.moving is not None]
        asking = [
            b for b in line
            if b.ready is not None and b.ready <= cycle
            and moving.count(b.queue) < max(1, rules.queue_bytes_per_cycle // self.width(b))
        ]  # fmt: skip
        if asking and (rules.scheduling == "fcfs" or self.overdue(asking[0], cycle)):
            asking = asking[:1]
        may = [b for b in asking if self.may_move(channel, b, cycle)]
        if may:
            channel.moving = may[0]
            may[0].start = cycle

    def width(self, burst: Burst) -> int:
        return self.rules.width(self.queues[burst.queue].runs[burst.run])

    def movers(self, queue: Queue) -> list[Burst]:
        """Return the bursts of a queue that move: the oldest first, as many as ports let pass."""
        on_bus = [c.moving for c in self.channels]
        passed: dict[tuple[int, int], int] = {}
        found = []
        for burst in queue.hand:
            if burst not in on_bus:
                continue
            wanted = self.near_bytes(burst)
            both = {bank: passed.get(bank, 0) + wanted.count(bank) for bank in wanted}
            if self.rules.port_bytes is None or all(
                count <= self.rules.port_bytes for count in both.values()
            ):
                passed |= both
                found.append(burst)
        return found

    def near_bytes(self, burst: Burst) -> list[tuple[int, int]]:
        """Return (partition, bank) of each byte of the state buffer that moves with a burst."""
        run, width = self.queues[burst.queue].runs[burst.run], self.width(burst)
        if run.near is None:
            return []
        partition, near = run.near
        base = run.target if burst.writes else run.source
        begin = burst.address - burst.address % self.rules.burst_bytes + burst.beats * width
        moved = range(max(begin, base + burst.low), min(begin + width, base + burst.high))
        return [(partition, (near + at - base) // self.rules.port_bank_bytes) for at in moved]

    def end(self, channel: Channel, cycle: int) -> None:
        """Take a burst that has moved in all of its cycles off the bus."""
        burst = channel.moving
        if burst is None:
            return
        if burst.beats == -(-self.rules.burst_bytes // self.width(burst)):
            channel.moving = None
            channel.done.append(burst)
            channel.ends["last"] = cycle
            del channel.worker[burst.bank]
            self.log.append((burst.queue, burst.address, burst.writes, burst.start, cycle))
            self.queues[burst.queue].end(burst)


def reference(rules: Rules, copies: list[list[list[Run]]]) -> Result:
    """Return when every copy ends. copies: of each queue, each a list of descriptors."""
    queues = [Queue(rules, number, mine) for number, mine in enumerate(copies)]
    dram = Dram(rules, queues)
    cycle = 0
    while any(queue.runs for queue in queues):
        dram.step(cycle)
        cycle += 1
    return Result([q.ends for q in queues], **dram.found, bursts=dram.log)
