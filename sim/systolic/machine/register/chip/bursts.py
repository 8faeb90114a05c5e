"""A DMA queue of a chip of several cores whose controllers have DRAM with banks.

A piece of a copy with an end in such DRAM moves in bursts; other pieces move as in any queue.
"""

from __future__ import annotations

from collections import Counter

from systolic.hw.spec import Dma
from systolic.machine.register.chip.banks import BankedControllers
from systolic.machine.register.chip.queue import ChipCopy, ChipQueue, Surroundings, run_of
from systolic.machine.register.chip.runs import Run
from systolic.machine.register.dma.bursts import AddressOf, BurstSides, BurstWork, bytes_now
from systolic.machine.register.dma.descriptors import Descriptor, RunStart
from systolic.machine.register.dram.channels import Burst
from systolic.machine.register.ports.ports import Wanted


class PieceOfBursts:
    """A piece of a copy that moves in bursts.

    banked: the ends that lie in DRAM with banks. near: the ends on a core, with ports. width: bytes
    of a burst in a cycle. credit: bytes of its shares that are kept from the cycle before.
    """

    def __init__(
        self, job: ChipCopy, runs: list[Run], banks: BankedControllers, rank: int, spec: Dma
    ) -> None:
        places = runs[0].places
        self.banked = [n for n, place in enumerate(places) if banks.has(place)]
        self.near = [n for n, end in enumerate(job.ends) if end.is_on_chip]
        self.credit = 0
        lead, *back = self.banked
        self._banks = banks
        parts = banks.dram.organisation
        assert parts is not None
        widths = [banks.dram.bytes_per_cycle // parts.channels, spec.queue_bytes_per_cycle]
        widths += [w for n in self.near if (w := job.port_bytes(n)) is not None]
        width = min(widths)
        alone = job.accumulates or len(job.ends) > 2
        at_once = 1 if alone else max(1, spec.queue_bytes_per_cycle // width)
        if job.accumulates and 1 in self.banked:
            width = max(1, width // 2)
        self.width = width
        sides = BurstSides(
            self._address_of(lead),
            lead > 0,
            self._address_of(back[0]) if back else None,
            width,
            at_once,
        )
        self.work = BurstWork(banks.channels, runs, sides, queue=rank, parts=parts, spec=spec)

    def _address_of(self, end: int) -> AddressOf:
        def address(part: Descriptor) -> int:
            return self._banks.address(run_of(part).starts[end].byte)

        return address


class BankedQueue(ChipQueue):
    """One queue, whose pieces in DRAM with banks go burst by burst."""

    _piece: PieceOfBursts | None = None

    @property
    def _banks(self) -> BankedControllers:
        assert self._around.banks is not None
        return self._around.banks

    def begin(self, tick: int) -> None:
        """Start a cycle, and take bursts in hand."""
        super().begin(tick)
        job = self._job
        if not isinstance(job, ChipCopy) or job.latency_left:
            return
        if self._piece is None and any(map(self._banks.has, job.run.places)):
            runs = _runs_of_piece(job)
            self._piece = PieceOfBursts(job, runs, self._banks, self._rank, self._spec)
        if self._piece is not None:
            self._piece.work.take_all(self.now)

    def request(self, tick: int) -> None:
        """Spend one cycle on the copy in hand."""
        job, piece = self._job, self._piece
        if not isinstance(job, ChipCopy) or piece is None:
            super().request(tick)
            return
        self._continue(job, piece, tick)
        for run in piece.work.ended(self.now):
            job.sizes.append(run.part.size_bytes)
            if not job.is_code:
                self._conclude(job, run_of(run.part), run.staged, tick)
        if piece.work.is_over:
            self._piece = None
            job.end_work(tick)
            self._next_descriptor(job, tick)

    def _continue(self, job: ChipCopy, piece: PieceOfBursts, tick: int) -> None:
        moving = piece.work.moving(self.now)
        passing, rest = self._passing(job, piece, moving, tick)
        needs = self._ports_of_bursts(job, piece, passing)
        if not self._take_each(job, needs, tick):
            return
        self.claims.mark("streaming", self.now, self.now + 1)
        if not moving:
            return
        job.begin_work(tick)
        piece.credit = rest
        for burst in passing:
            low, high = bytes_now(burst)
            if low < high and not job.is_code:
                self._carry(job, piece, burst, low, high)
            piece.work.pass_cycle(burst)

    def _passing(
        self, job: ChipCopy, piece: PieceOfBursts, moving: list[Burst], tick: int
    ) -> tuple[list[Burst], int]:
        """Return the bursts that ports and shares let move, and the bytes kept of the shares."""
        allowed = self._allowed(job, tick)
        left = piece.credit + (allowed or 0)
        used: Counter[tuple[int, int]] = Counter()
        found, is_short = [], False
        for burst in moving:
            more = used + self._bytes_by_bank(job, piece, burst)
            port = job.port_bytes(piece.near[0]) if piece.near else None
            if port is not None and max(more.values(), default=0) > port:
                continue
            low, high = bytes_now(burst)
            size = 0 if piece.work.is_back(burst) else max(0, high - low)
            if allowed is not None and size:
                is_short = is_short or size > left
                if is_short:
                    continue
                left -= size
            used = more
            found.append(burst)
        if allowed is None or len(moving) * piece.width <= allowed:
            return found, 0
        return found, min(left, piece.width - 1)

    def _allowed(self, job: ChipCopy, tick: int) -> int | None:
        """Return the bytes that shares of pools and of other controllers give in this cycle."""
        shares, held = self._around.shares, job.holding(self._chip)
        got = shares.of_controllers(self._rank, held, tick, self.now)
        got += shares.of_pools(held, tick, tick + self.period)
        return min(got) if got else None

    def _bytes_by_bank(
        self, job: ChipCopy, piece: PieceOfBursts, burst: Burst
    ) -> Counter[tuple[int, int]]:
        """Return how many bytes of each (partition, bank) of a core a burst moves now."""
        if len(piece.near) != 1 or piece.work.is_back(burst):
            return Counter()
        (end,) = piece.near
        if job.port_bytes(end) is None:
            return Counter()
        near = run_of(piece.work.runs[burst.run].part).starts[end]
        bank_bytes = job.bank_bytes(end)
        low, high = bytes_now(burst)
        return Counter((near.partition, (near.byte + at) // bank_bytes) for at in range(low, high))

    def _ports_of_bursts(
        self, job: ChipCopy, piece: PieceOfBursts, bursts: list[Burst]
    ) -> list[tuple[int, Wanted]]:
        """Return the ports, each with its core; of one end the lowest bank and partition first.

        Bursts that move in one cycle may need the same port: they share it.
        """
        found: list[tuple[int, Wanted]] = []
        for number in piece.near:
            end = job.ends[number]
            for direction in job.directions(number):
                wants: set[tuple[int, Wanted]] = set()
                for burst in bursts:
                    low, high = bytes_now(burst)
                    if low < high and not piece.work.is_back(burst):
                        start = run_of(piece.work.runs[burst.run].part).starts[number]
                        part = RunStart(start.partition, start.byte + low)
                        wants.update(self._of_end(end, part, high - low, 1, direction))
                found += sorted(wants)
        return found

    def _carry(
        self, job: ChipCopy, piece: PieceOfBursts, burst: Burst, low: int, high: int
    ) -> None:
        """Move bytes of a burst; they land in the next cycle, sums when their run has ended."""
        fetched = piece.work.runs[burst.run]
        run, is_back = run_of(fetched.part), piece.work.is_back(burst)
        if not is_back:
            start = run.starts[0]
            source = self._bytes_of(job.ends[0])[start.partition]
            fetched.staged[low:high] = source[start.byte + low : start.byte + high]
        if job.accumulates:
            return
        for number, end in enumerate(job.ends[1:], 1):
            is_behind = number in piece.banked[1:]
            if is_behind == is_back:
                start = run.starts[number]
                place = slice(start.byte + low, start.byte + high)
                row = self._bytes_of(end)[start.partition]
                self._landing.append((row, place, fetched.staged[low:high].copy()))


def _runs_of_piece(job: ChipCopy) -> list[Run]:
    """Take from a copy, and return, all runs from the bundle in hand on that lie between its ends.

    The bundle stays in hand until they have moved.
    """
    found, places = [run_of(part) for part in job.bundle], job.run.places
    while job.rest and run_of(job.rest[0][0]).places == places:
        found += [run_of(part) for part in job.rest.popleft()]
    return found


def queue_kind(around: Surroundings) -> type[ChipQueue]:
    """Return the kind of a chip's queues, by what DRAM the chip has."""
    return ChipQueue if around.banks is None else BankedQueue
