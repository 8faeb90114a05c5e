"""Twin of `register.unit`: the in-order queue of every unit, served by one simpy process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import simpy

from systolic.errors import LimitReachedError
from systolic.hw.spec import Chip, Dma, Engine, PEArray
from systolic.isa import Buffer, Instruction, Post, Program, Wait
from systolic.machine.event.pe_array.row_order import ProductForm
from systolic.machine.event.ports.arbiter import Arbiter
from systolic.machine.event.ports.beats import Beats, covered_ticks, stretch
from systolic.machine.event.ports.ports import Need, Needs, Port, Timeline
from systolic.machine.event.ports.stream import Asker, Lost, Stream
from systolic.machine.event.semaphores import PostTicks, Resumed, Semaphores
from systolic.machine.event.ticks import TickEnvironment
from systolic.machine.memory import Memory
from systolic.trace.recorder import Recorder
from systolic.trace.records import EXCLUSIVE, InstructionTimes, Stall

if TYPE_CHECKING:
    from systolic.machine.event.chip.ports import Shifter
    from systolic.machine.event.dma.plan import CopyPlan
    from systolic.machine.event.dram.channels import Channels
    from systolic.machine.event.fetch import Supply

Process = Generator[simpy.Event, Any, None]


@dataclass
class Context:
    """What all units of one run share.

    is_split: each partition of the state buffer has ports of its own. timeline_use: the ticks for
    which each slot of a timeline was granted, of all streams that had it. shared: what a core of a
    chip of several has from that chip; None: there is one core. limit_ticks: a run that takes as
    many is stopped.
    """

    env: TickEnvironment
    chip: Chip
    program: Program
    memory: Memory
    recorder: Recorder
    semaphores: Semaphores
    arbiter: Arbiter
    is_split: bool
    posters: tuple[str, ...]
    values: bool
    product_form: ProductForm
    on_done: Callable[[], None]
    dram: Channels | None = None
    fetch: Supply | None = None
    limit_ticks: int | None = None
    end: int = 0
    port_use: dict[Port, list[Beats]] = field(default_factory=dict)
    timeline_use: dict[Timeline, int] = field(default_factory=dict)
    copy_plans: dict[Hashable, CopyPlan] = field(default_factory=dict)
    shared: CoreOfSeveral | None = None

    def named(self, queue: str) -> str:
        """Return the name that a queue has in records."""
        return queue if self.shared is None else self.shared.named(queue)

    def rank(self, client: str) -> int:
        """Return the place of a client in the arbitration."""
        place = self.chip.port_priority.index(client)
        return place if self.shared is None else place + self.shared.later

    def needs(self, own: Needs) -> Needs:
        """Return needs of ports as the arbiter knows them."""
        return own if self.shared is None else self.shared.ports.needs(own)

    def winner(self, lost: Lost) -> str:
        """Return the name of the client that has a port which was refused."""
        return lost.winner if self.shared is None else self.shared.winner(lost)

    def retire(self, index: int, end: int) -> None:
        """Count an instruction whose last act ends at tick `end`.

        Raises LimitReachedError if the run takes too long.
        """
        if end > self.end:
            self.end = end
            if self.limit_ticks is not None and end >= self.limit_ticks:
                raise LimitReachedError(f"stopped: it takes {self.limit_ticks} ticks or more")
        self.on_done()
        if self.shared is not None:
            self.shared.end(index, end)

    def use_ports(self, stream: Stream) -> None:
        """Note when ports were in use by a stream that has ended.

        Where partitions have ports of their own, only how long counts, and that is known before.
        """
        timeline = stream.timeline
        if not self.is_split:
            for need, uses in stream.port_use(timeline):
                self.use_port(need, uses)
            return
        self.timeline_use[timeline] = self.timeline_use.get(timeline, 0) + stream.period
        for need, uses in stream.port_use(timeline.of_banks):
            self.use_port(need, uses)

    def use_port(self, need: Need, uses: Beats) -> None:
        """Note when a port that all partitions share is in use."""
        if need.port.direction != EXCLUSIVE:
            self.port_use.setdefault(need.port, []).append(uses)

    def use_result_ports(self, uses: Iterable[tuple[int, int, int]]) -> None:
        """Note when DMA read which banks of the result buffer: bank, first tick, tick after."""
        for bank, first, stop in uses:
            port = Port(Buffer.RESULT.value, bank, "read")
            self.port_use.setdefault(port, []).append(stretch(first, stop))

    def account_ports(self) -> None:
        """Hand the ticks in which each port was in use to the recorder, overlaps counted once."""
        counted = self.recorder.port_cycles
        for port, uses in self.port_use.items():
            counted[port] += covered_ticks(uses)
        for timeline, ticks in self.timeline_use.items():
            for port, slots in timeline.of_partitions.items():
                counted[port] += slots * ticks


class CoreOfSeveral(ABC):
    """What a core has from the chip of several that it is on.

    ports: its own as the chip's. later: added to the places of its clients in the arbitration, so
    that DMA has one place in all cores. ends_matter: something depends on the end of its program.
    """

    ports: Shifter
    later: int
    ends_matter: bool

    @abstractmethod
    def named(self, queue: str) -> str:
        """Return the name that a queue has on the chip."""

    @abstractmethod
    def winner(self, lost: Lost) -> str:
        """Return the name that the client of a port has on the chip."""

    @abstractmethod
    def note_post(self, made: int, seen: int, unit: str, semaphore: int) -> None:
        """Note a post made at a tick, and visible at another."""

    @abstractmethod
    def end(self, index: int, end: int) -> None:
        """Note the end of an instruction of its program, whose records may still be to come."""

    @abstractmethod
    def hop_ticks(self, semaphore: int) -> int:
        """Return the ticks that a post takes longer than within the core."""


class Unit(ABC):
    """A unit and its queue. Subclasses say when an instruction may start, and what it does."""

    def __init__(
        self,
        context: Context,
        name: str,
        spec_name: str,
        queue: Sequence[int],
        spec: PEArray | Engine | Dma,
    ) -> None:
        self.context, self.local, self.name = context, name, context.named(name)
        self.env, self.chip = context.env, context.chip
        self._shared = context.shared
        self.period = context.chip.period(spec_name)
        dispatch = spec.dispatch_cycles * self.period
        self._serial_ticks, self._decode_ticks = (
            (dispatch, 0) if spec.dispatch == "serial" else (0, dispatch)
        )
        self._post_ticks = context.chip.post_cycles(spec_name) * self.period
        self._claims = context.recorder.claims[self.name]
        self._semaphores = context.semaphores
        self.queue = tuple(queue)
        self.place = 0
        # A core of several may start later; what comes before is idle.
        self.head_since = self.align(context.env.tick)
        self._fetched = self._decoded = self.head_since
        self._awaits_bytes = f"waiting for {context.fetch.name if context.fetch else 'fetch'}"
        self._wait_ticks: list[int | None] = []
        """From when each wait of the head is satisfied, as known when it was asked last."""

    @abstractmethod
    def earliest(self, instruction: Instruction) -> int:
        """Return the first tick at which the unit itself could take the instruction, as known."""

    @abstractmethod
    def start(self, index: int, instruction: Instruction, *, asks_last: bool) -> None:
        """Begin the instruction in the present tick."""

    def release(self, instruction: Instruction) -> Sequence[tuple[Stream, int]]:
        """Return accesses that must have been made, possibly in the very cycle of the start."""
        return ()

    def process(self) -> Process:
        """Serve the queue: wait for each instruction's start, then begin it."""
        fetch, instructions = self.context.fetch, self.context.program.instructions
        for index in self.queue:
            instruction = instructions[index]
            if fetch:
                yield from self._await_fetch(fetch)
            asks_last = yield from self._await(instruction)
            self._claim_waiting(instruction)
            for wait in instruction.waits:
                self.context.recorder.wait(self.env.tick, self.name, wait.semaphore, wait.value)
            self.start(index, instruction, asks_last=asks_last)
            if fetch:
                fetch.started(self.local)
            self.head_since = self.env.tick
            # What stands behind a load that asked last was not there when others asked.
            self._decoded = self.head_since + max(self._decode_ticks, asks_last * self.period)
            self.place += 1

    def _await_fetch(self, fetch: Supply) -> Process:
        """Wait until it is known when the head will have been fetched."""
        while (tick := fetch.head(self.local)) is None:
            yield fetch.news(self.local)
        self._fetched = tick

    def _await(self, instruction: Instruction) -> Generator[simpy.Event, Any, bool]:
        arbiter = self.context.arbiter
        while True:
            ready, now = self._ready(instruction), self.env.tick
            if ready is None or ready > now:
                yield self._until(ready, instruction)
                continue
            asks_last = False
            released = [r for r in self.release(instruction) if r[0].tick_of(r[1]) >= now]
            if released:
                asks_last = True
                if not all(arbiter.has_made(*access) for access in released):
                    yield arbiter.settled()
                    if not all(stream.made(slot, now) for stream, slot in released):
                        yield simpy.Timeout(self.env, self.period)
                        continue
            if self._serial_ticks:
                yield simpy.Timeout(self.env, self._serial_ticks)
                asks_last = False
            return asks_last

    def _ready(self, instruction: Instruction) -> int | None:
        ready = self._decoded if self._decoded > self._fetched else self._fetched
        self._wait_ticks = self._ticks_of(instruction.waits) if instruction.waits else []
        for tick in self._wait_ticks:
            if tick is None:
                return None
            if tick > ready:
                ready = tick
        earliest = self.earliest(instruction)
        if earliest > ready:
            ready = earliest
        return ready if self.period == 1 else self.align(ready)

    def _ticks_of(self, waits: Iterable[Wait]) -> list[int | None]:
        tick_of = self._semaphores.tick_of
        return [tick_of(wait) for wait in waits]

    def _until(self, ready: int | None, instruction: Instruction) -> simpy.Event:
        now, semaphores = self.env.tick, self._semaphores
        if not instruction.waits:
            assert ready is not None, "only posts can be unknown"
            return simpy.Timeout(self.env, ready - now)
        news = [
            semaphores.changed(w.semaphore)
            for w, tick in zip(instruction.waits, self._wait_ticks, strict=True)
            if tick is None or (tick > now and semaphores.may_come_sooner(w.semaphore))
        ]
        if ready is None:
            return self._first_of(news)
        for wait in instruction.waits:
            if resumed := semaphores.resumed(wait):
                return self._first_of([resumed, *news])
        return self._first_of([simpy.Timeout(self.env, ready - now), *news])

    def _first_of(self, events: list[simpy.Event]) -> simpy.Event:
        """Return an event that comes with the first of these (simpy's any_of, at half its cost)."""
        if len(events) == 1:
            return events[0]
        bell = simpy.Event(self.env)

        def ring(_: simpy.Event) -> None:
            if not bell.triggered:
                bell.succeed()

        for event in events:
            event.callbacks.append(ring)
        return bell

    def stream(self, asker: Asker, timeline: Timeline, spacing: int = 1) -> Stream:
        """Return a stream of an instruction, whose timeline is of the core's own ports."""
        shared = self._shared
        if shared is None:
            return Stream(self.env, asker, timeline, spacing)
        own = shared.ports.timeline(timeline)
        return Stream(self.env, asker, own, spacing, is_awaited=shared.ends_matter)

    def add_later(self, stream: Stream, cycles: int) -> None:
        """Let a stream ask for its first slot in that many cycles."""
        if not cycles:
            self.context.arbiter.add(stream)
            return
        delay = simpy.Timeout(self.env, cycles * self.period)
        delay.callbacks.append(lambda _: self.context.arbiter.add(stream))

    def align(self, tick: int) -> int:
        """Return the first cycle of this unit that begins at or after `tick`."""
        return -(-tick // self.period) * self.period

    def cycle(self, tick: int) -> int:
        """Return the number of the cycle of this unit that begins at `tick`."""
        return tick // self.period

    def _claim_waiting(self, instruction: Instruction) -> None:
        """Say what the head waited for: its waits in order, then its bytes, then its own unit."""
        since, now = self.head_since, self.env.tick
        if since == now:
            return
        for wait, tick in zip(instruction.waits, self._wait_ticks, strict=True):
            until = min(self.align(tick or 0), now)
            if until > since:
                self.claim(f"waiting for {self.context.posters[wait.semaphore]}", since, until)
                since = until
        if self._fetched > since:
            fetched = min(self.align(self._fetched), now)
            self.claim(self._awaits_bytes, since, fetched)
            since = fetched
        self.claim("waiting for issue", since, now)

    def claim(self, label: str, first: int, stop: int, order: int = 0) -> None:
        """Claim a label from tick `first` to tick `stop`."""
        if stop > first:
            if (period := self.period) > 1:
                first, stop = first // period, stop // period
            self._claims.append((first, stop, label, order))

    def claim_filling(
        self, first: int, stop: int, stream: Stream, slots: int, order: int = 0
    ) -> None:
        """Claim that it fills from tick `first` to tick `stop`, unless `stream` hides all of it.

        Of its slots the first `slots` carry a label of their own, which wins over this one.
        """
        run = stream.progress[0]
        if run.tick > first or run.tick + min(run.slots, slots) * self.period < stop:
            self.claim("filling", first, stop, order)

    def announce(
        self,
        posts: tuple[Post, ...],
        visible: Callable[[str], PostTicks],
        resumed: Resumed | None = None,
    ) -> list[tuple[int, PostTicks]]:
        """Announce posts; `visible` gives, for what a post is made on, when others see it.

        resumed: as `Semaphores.announce` takes it.
        """
        if not posts:
            return []
        if self._shared is None:
            sources = [(post.semaphore, visible(post.on)) for post in posts]
        else:
            sources = [(p.semaphore, self._seen(p.semaphore, visible(p.on))) for p in posts]
        for semaphore, ticks in sources:
            self.context.semaphores.announce(semaphore, ticks, resumed)
        return sources

    def _seen(self, semaphore: int, ticks: PostTicks) -> PostTicks:
        """Return when a post is visible to the core whose semaphore it is."""
        assert self._shared is not None
        hops = self._shared.hop_ticks(semaphore)
        return (lambda: [tick + hops for tick in ticks()]) if hops else ticks

    @property
    def post_delay(self) -> int:
        """Return the ticks from a write to the cycle in which others see its post."""
        return self._post_ticks

    def settle(self, sources: list[tuple[int, PostTicks]]) -> None:
        """Make announced posts final and record them."""
        if not sources:
            return
        delay, shared = self.post_delay, self._shared
        for semaphore, visible in sources:
            ticks = visible()
            if shared is None:
                for tick in ticks:
                    self.context.recorder.post(tick - delay, self.name, semaphore)
            else:
                ago = delay + shared.hop_ticks(semaphore)
                for tick in ticks:
                    shared.note_post(tick - ago, tick, self.name, semaphore)
            self._semaphores.settle(semaphore, visible, ticks)

    def finish(self, times: InstructionTimes, stream: Stream) -> None:
        """Record the end of an instruction: its times, its stalls, the length of the run."""
        self.context.recorder.times.append(times)
        if stream.refusals:
            self.note_stalls(times.instruction, stream)
        self.context.use_ports(stream)
        self.context.retire(times.instruction, times.done + self.period)

    def note_stalls(self, index: int, stream: Stream) -> None:
        """Record what was refused to a stream of an instruction."""
        for refusal in stream.refusals:
            if refusal.cycles:
                stop = refusal.tick + refusal.cycles * self.period
                label = f"stalled by {self.context.winner(refusal.lost)}"
                self.claim(label, refusal.tick, stop, index)
                port, winner, partition = refusal.lost
                self.context.recorder.stalls.append(
                    Stall(
                        refusal.tick,
                        self.name,
                        index,
                        refusal.cycles,
                        *port,
                        winner,
                        partition,
                    )
                )
