"""Lower bounds of work that only moves elements: transposes, permutations, reshapes.

Closed formulas that anyone can recompute, in ticks; see `systolic.hw.formulas.timing` and
`systolic.hw.formulas.products` for those of work of the array. Source: docs/timing_model.md,
section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from systolic.hw.formulas.dram import buses_at_once, least_cycles
from systolic.hw.formulas.engines import copiers, lead_cycles, serial_cycles, word_rates
from systolic.hw.formulas.ticks import UnitRate, after, least_end
from systolic.hw.formulas.timing import (
    Bound,
    dma_cycles,
    dma_latency_cycles,
    lone_latency_cycles,
)
from systolic.hw.spec import Chip


def bounce_bound(chip: Chip, tiles: Sequence[tuple[int, int]], size_bytes: int) -> Bound:
    """Return the least time in which DMA transposes K x N blocks by way of DRAM.

    A block is written by rows, K descriptors of N elements, and read back by columns, a
    descriptor for each of its elements (one of K elements if N = 1). All queues together must do
    that work, and no block takes less than its two copies one after the other, perhaps in one
    queue. In cycles of the DMA engine's clock:

        max(sum of both copies of all blocks / queues, both copies of the quickest block)

    Where DMA transposes elements of that size, a block may be read back at the full rate.

    Where copies of a queue overlap their latencies, the first latency comes before that, and the
    copies cost what they do without. Dispatch that is serial is part of a copy's latency here. The
    engines' bytes per cycle are a bound as well.
    """
    latency = lone_latency_cycles(chip)
    each = 0 if chip.dma.outstanding > 1 else latency
    hidden = latency - each
    least = [
        2 * each
        + least_moving_cycles(chip, K, N * size_bytes)
        + _read_back_cycles(chip, K, N, size_bytes)
        for K, N in tiles
    ]
    moved = 2 * sum(K * N for K, N in tiles) * size_bytes
    cycles = max(
        hidden + max(-(-sum(least) // chip.dma.queues), min(least)),
        latency - (-moved // (chip.dma.engine_count * chip.dma.bytes_per_cycle)),
    )
    ticks = after(chip, 0, "dma", cycles)
    return Bound(ticks, "descriptors of all DMA queues", chip.period("pe_array"))


def _read_back_cycles(chip: Chip, K: int, N: int, size_bytes: int) -> int:
    """Return the least cycles in which a queue reads a block's columns, element by element."""
    if N == 1:
        return least_moving_cycles(chip, 1, K * size_bytes)
    turns = chip.dma.transposes
    if turns is not None and size_bytes in turns.element_bytes:
        return -(-K * N * size_bytes // chip.dma.lone_bytes_per_cycle)
    return least_moving_cycles(chip, K * N, size_bytes)


def least_moving_cycles(chip: Chip, descriptors: int, size_bytes: int) -> int:
    """Return the least cycles behind its latency of a copy from or to DRAM.

    descriptors: of `size_bytes` each, as many side by side as can be. With several bursts in hand
    (`outstanding` of DRAM's organisation) the next descriptors are fetched while bursts move: then
    it is the fetch of all and a burst, or the fetch of one and the bursts of all, by as many buses
    as the queue has bursts for.
    """
    parts = chip.dram.organisation
    if parts is None or parts.outstanding == 1:
        rows = chip.dma.most_beside
        cycles = dma_cycles(chip, [(descriptors, size_bytes)], dram=True, rows=rows)
        return cycles - dma_latency_cycles(chip)
    first = chip.dma.descriptor_cycles if chip.dma.descriptor_cost == "sum" else 0
    _, burst_cycles = chip.burst_cycles()
    bursts = descriptors * -(-size_bytes // parts.burst_bytes)
    begun = first + (descriptors - 1) * chip.dma.descriptor_cycles  # the last's bursts are taken
    moving = -(-bursts // buses_at_once(chip)) * burst_cycles
    return max(begun + burst_cycles, first + moving, descriptors * chip.dma.descriptor_cycles)


@dataclass(frozen=True, slots=True)
class GappedBytes:
    """The bytes of a tensor in DRAM that lie in lines, with a gap in each line's last tile.

    size_bytes: of all elements. lines: how many there are. tile_bytes: of a line's part of a tile,
    padding counted, of which `whole_tiles` in a line are full. last_bytes: in the last one from the
    first element to the last, at least. gap_bytes: behind them, at least. stored: they are written
    to DRAM, where no copy transposes.
    """

    size_bytes: int
    lines: int
    tile_bytes: int
    whole_tiles: int
    last_bytes: int
    gap_bytes: int
    stored: bool = False

    def in_bursts(self, burst_bytes: int) -> int:
        """Return the bytes of all bursts that hold elements, if tiles are of whole bursts."""
        if self.tile_bytes % burst_bytes:
            return self.size_bytes
        last = -(-self.last_bytes // burst_bytes) * burst_bytes
        return self.lines * (self.whole_tiles * self.tile_bytes + last)

    def queue_cycles(self, chip: Chip) -> int:
        """Return the least cycles of all queues together for every line, latencies apart.

        A descriptor is of bytes side by side. So for each gap there is one more descriptor, or one
        that moves the gap as well. Of n lines x have a descriptor of their own: they cost x
        descriptors and the bytes of n - x gaps, one after the other or (`descriptor_cost`) the
        greater of both. Where copies are spread, a queue has a descriptor for each engine under way
        at once, and all queues together the rate of all engines.
        """
        dma = chip.dma
        rate = Fraction(dma.lone_bytes_per_cycle)
        if dma.is_spread and dma.descriptor_cost == "max":
            rate /= dma.queues
        moving = self.size_bytes / rate
        if dma.transposes is not None and not self.stored:  # by the runs of the target
            return int(moving)
        beside = dma.engine_count if dma.is_spread else 1
        each, gap = Fraction(dma.descriptor_cycles, beside), self.gap_bytes / rate
        if chip.dma.descriptor_cost != "max":
            return int(moving + (self.lines - 1) * min(each, gap))
        apart = (moving + self.lines * gap) / (each + gap) if each + gap else Fraction(0)
        return int(max(moving, min(apart, Fraction(self.lines - 1)) * each))


def gapped_bound(
    chip: Chip, ends: Sequence[GappedBytes], other_bytes: int = 0, *, moved: bool = True
) -> Bound:
    """Return the least time in which the bytes of tensors with gaps come from DRAM or go there.

    other_bytes: of the work's tensors without gaps. moved: the tensors are the ends of one move. A
    copy within DRAM may have both as its ends then, so the one that takes more counts; tensors of
    other work have copies of their own. DRAM with an organisation gives and takes whole bursts.
    """
    parts = chip.dram.organisation
    if parts is not None:
        in_bursts = sum(end.in_bursts(parts.burst_bytes) for end in ends)
        cycles = least_cycles(chip, other_bytes + in_bursts)
    else:
        each = [end.queue_cycles(chip) for end in ends]
        cycles = (max(each, default=0) if moved else sum(each)) // chip.dma.queues
    ticks = after(chip, 0, "dma", lone_latency_cycles(chip) + cycles)
    what = "bursts of DRAM" if parts else "descriptors of all DMA queues"
    return Bound(ticks, what, chip.period("pe_array"))


def channel_bound(chip: Chip, bursts: int) -> Bound:
    """Return the least time in which one channel of DRAM moves so many bursts.

    Its bus has one of them at a time.
    """
    _, burst_cycles = chip.burst_cycles(in_state=False)
    ticks = after(chip, 0, "dma", lone_latency_cycles(chip) + bursts * burst_cycles)
    return Bound(ticks, "bursts of one channel of DRAM", chip.period("pe_array"))


@dataclass(frozen=True, slots=True)
class CommonRuns:
    """The elements of a tensor that goes from one place in DRAM to another.

    size_bytes: of all elements. longest_bytes: of the longest run that lies side by side in both
    places. gap_bytes: between two runs that go by the same distance, at least.
    """

    size_bytes: int
    longest_bytes: int
    gap_bytes: int


def passed_bound(chip: Chip, runs: CommonRuns) -> Bound:
    """Return the least time in which DMA engines pass all bytes of a move within DRAM.

    An element that one descriptor brings from its place in the source to its place in the result
    passes the engines once; any other passes them twice at least, as it must leave DRAM or lie
    elsewhere in it meanwhile. Of S bytes let P pass once. All queues fetch a descriptor in D cycles
    and all engines pass a byte in B. In T cycles there are T / D descriptors and T / B bytes, and

        T / B >= 2 S - P

    A descriptor brings elements to their places by one distance. They lie in runs of L bytes at
    most, with gaps of g bytes at least between them, which pass as well. So P bytes are P / L runs,
    all but one of each descriptor behind a gap:

        T / D >= P / L - (T / B - P) / g

    With a = D / (B L) and h = D / (B g) it follows that T >= 2 S B (a + h) / (1 + a + 2 h).
    """
    dma = chip.dma
    beside = dma.engine_count if dma.is_spread else 1
    fetched = Fraction(dma.descriptor_cycles, dma.queues * beside)
    passed = Fraction(1, dma.engine_count * dma.bytes_per_cycle)
    a, h = fetched / passed / runs.longest_bytes, fetched / passed / runs.gap_bytes
    cycles = int(2 * runs.size_bytes * passed * (a + h) / (1 + a + 2 * h))
    ticks = after(chip, 0, "dma", lone_latency_cycles(chip) + cycles)
    return Bound(ticks, "bytes that pass DMA engines twice", chip.period("pe_array"))


def copied_bound(
    chip: Chip,
    elements: int,
    size_bytes: int,
    *,
    ports: int | None = None,
    calculated: bool = False,
    alone: bool = False,
) -> Bound:
    """Return the least time in which elements get another place in the state buffer.

    Each is written by a lane of an engine or by a DMA queue. In a cycle of its clock

        an engine      writes lanes * its fastest rate words, each of up to four bytes of
                       elements side by side (alone: of one element), or as many bytes as pass the
                       ports, over latency + 1 cycles later
        the DMA engines move engines * bytes_per_cycle bytes, from the cycle after their latency on

    and begins when its first instruction is dispatched, and an engine ready to read. ports: those
    to which all elements go, of a bank of a partition each, if they are not all there are: a port
    takes one write of an engine at a time, while an engine may write several banks of a partition
    at once, by lanes that read other partitions. calculated: the elements are no bytes of the
    source, so that only engines make them. alone: those that no queue moves need a write of an
    engine each (`systolic.compiler.bounds.own_writes`).
    """
    ways, least = [], []
    for unit, engine in copiers(chip, "state_buffer").items():
        words, lane_bytes = word_rates(engine, chip.port_width_bytes)
        lane_bytes = min(lane_bytes, words * size_bytes) if alone else lane_bytes
        behind = lead_cycles(engine, "state_buffer") + engine.latency_cycles + 1
        ways.append(UnitRate(chip.period(unit), chip.state_buffer.partitions * lane_bytes, behind))
        least.append((Fraction(lane_bytes, chip.period(unit)), (behind - 1) * chip.period(unit)))
    dma, queues = chip.dma, list[UnitRate]()
    if not calculated or not ways:
        behind = serial_cycles(dma) + dma.latency_cycles + 1
        queues = [UnitRate(chip.period("dma"), dma.engine_count * dma.bytes_per_cycle, behind)]
    ticks = least_end(0, elements * size_bytes, [*ways, *queues])
    if ports is not None and least:
        rate, begun = max(rate for rate, _ in least), min(tick for _, tick in least)
        written = UnitRate(1, ports * rate, begun + 1)
        ticks = max(ticks, least_end(0, elements * size_bytes, [written, *queues]))
    what = "lanes that calculate" if calculated else "lanes and DMA queues that copy"
    return Bound(ticks, what, chip.period("pe_array"))
