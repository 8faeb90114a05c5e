"""What held each instruction back: every point it had to wait for, and which of them was the last.

The rules are the rules of docs/timing_model.md, sections 2, 3, 4 and 6, told backwards: from the
times of a finished run to what bound each of them. A test holds them against random runs: the
latest cause of a start is always that very start. Not here: what an instruction did then
(`points`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from systolic.critical_path.points import Lives, Point
from systolic.critical_path.several import JointLives
from systolic.hw.formulas.timing import right_cycles
from systolic.hw.spec import Dma, Engine, PEArray
from systolic.hw.units import unit_of, units_of
from systolic.isa import Command, DmaCopy, DmaMove, LoadWeights, MatMul, OnEngine
from systolic.isa.array_tile import ArrayTile
from systolic.isa.effects import lanes
from systolic.isa.engines import pace_of, table_loaded
from systolic.isa.tiling import array_tile

SEMAPHORE, DISPATCH, INTERVAL, QUEUE, FETCH = "semaphore", "dispatch", "interval", "queue", "fetch"
"""What passes between a point and the start that waited for it: the post until it is seen,
dispatch, the least distance of two starts, nothing (the queue is in order), instruction fetch."""

START, COMMAND = "start", "command"
"""On a chip with processors: from a start until the core begins, and from command to command."""
SINCE_START = (INTERVAL, DISPATCH)


class Cause(NamedTuple):
    """An instruction could not start before tick `tick`, because of a point in another's life.

    point: None if the cause is not the act of an instruction. reason: what passed between the point
    and `tick`. If both are the same tick, nothing passed, and the reason names what could have.
    """

    point: Point | None
    tick: int
    reason: str


class _Made(NamedTuple):
    """A post: the tick from which others see it, and the point at which it was made."""

    visible: int
    point: Point


@dataclass(frozen=True, eq=False)
class Causes:
    """The causes of every start in a finished run."""

    lives: Lives

    def of(self, index: int) -> list[Cause]:
        """Return all causes of the start of an instruction, without the dispatch behind them."""
        found = [*self._own[index], *self._waits(index), *self._starts(index)]
        if index in self.lives.fetches:
            found.append(Cause(None, self.lives.fetches[index].arrival, FETCH))
        return [*found, *self._sequence(self._before.get(index))]

    def last(self, index: int) -> Cause | None:
        """Return the cause that came last; None if nothing held the instruction back.

        Of those that came together, what an instruction did says more than that it had started.
        """
        found = self.of(index)
        return max(
            found, key=lambda each: (each.tick, each.reason not in SINCE_START), default=None
        )

    def could_start(self, index: int) -> int:
        """Return the tick at which all causes were over: the start, before serial dispatch."""
        period = self.lives.period(index)
        return self.lives.times[index].start - self._spec(index).serial_cycles * period

    # -- semaphores --------------------------------------------------------------------------------

    @cached_property
    def posts(self) -> list[list[_Made]]:
        """Return the posts of each semaphore, in the order in which others see them."""
        lives, found = self.lives, [list[_Made]() for _ in self.lives.program.semaphores]
        for index in lives.times:
            unit = unit_of(lives.local(lives.times[index].unit))
            delay = (lives.chip_of(index).post_cycles(unit) - 1) * lives.period(index)
            for post in lives.instruction(index).posts:
                late = delay + lives.hop_ticks(index, post.semaphore)
                found[post.semaphore] += [
                    _Made(point.tick + late, point) for point in lives.results(index, post.on)
                ]
        return [
            sorted(made for made in posts if made.visible >= self._begun(number))
            for number, posts in enumerate(found)
        ]

    def _begun(self, semaphore: int) -> int:
        """Return the tick from which a semaphore counts: that at which its program starts."""
        lives = self.lives
        if not isinstance(lives, JointLives):
            return 0
        return lives.begun(lives.joint.launch_of_semaphore[semaphore])

    def _starts(self, index: int) -> Iterator[Cause]:
        """Yield the command that started the program of an instruction, or that put in a copy."""
        lives = self.lives
        if not isinstance(lives, JointLives):
            return
        launch = lives.joint.launch_of[index]
        if lives.joint.launches[launch].by is not None:
            yield Cause(lives.end(lives.start_of(launch)), lives.begun(launch), START)
        if index in self._put:
            yield self._put[index]

    @cached_property
    def _put(self) -> dict[int, Cause]:
        """Return, by copy of a processor, the end of the command before it, and when it was put in.

        So it is for each command behind a copy, too.
        """
        lives, found = self.lives, dict[int, Cause]()
        if not isinstance(lives, JointLives):
            return found
        for launch in lives.joint.launches:
            if launch.section.place.kind != "processor":
                continue
            period = lives.joint.chip.queue_periods[launch.at]
            spec = lives.joint.chip.processor_specs[launch.section.place.number]
            tick, before = 0, None
            for place, each in enumerate(launch.program.instructions):
                index = launch.first_instruction + place
                if isinstance(each, Command):
                    if index not in lives.times:
                        break
                    found[index] = Cause(before, tick, COMMAND)
                    before, tick = lives.end(index), lives.end(index).tick
                else:
                    tick += spec.cycles_of("copy") * period
                    found[index] = Cause(before, tick, COMMAND)
        return found

    def _waits(self, index: int) -> Iterator[Cause]:
        instruction = self.lives.instruction(index)
        if isinstance(instruction, Command) and instruction.word == "start":
            yield from self._stops(index, instruction)
        for wait in instruction.waits:
            if wait.value > 0:
                made = self.posts[wait.semaphore][wait.value - 1]
                yield Cause(made.point, made.visible, SEMAPHORE)

    def _stops(self, index: int, command: Command) -> Iterator[Cause]:
        """Yield the ends that a start waits for: of the core's program before, and of its code."""
        lives, start = self.lives, self.lives.times[index].start
        for other, times in lives.times.items():
            instruction = lives.instruction(other)
            is_code = isinstance(instruction, DmaMove) and instruction.brings_code
            at = instruction.target_at.partition(".")[0] if isinstance(instruction, DmaMove) else ""
            is_own = times.unit.startswith(f"{command.at}.")
            if (is_own or (is_code and at == command.at)) and lives.end(other).tick <= start:
                yield _at(lives.end(other))

    # -- the unit and its queue --------------------------------------------------------------------

    def _spec(self, index: int) -> _Sequencer:
        if isinstance(self.lives.instruction(index), Command):
            return _Sequencer(0, 0)
        chip = self.lives.chip_of(index)
        if id(chip) not in self._sequencers:
            self._sequencers[id(chip)] = {
                unit: _Sequencer.of(chip.unit(unit)) for unit in units_of(chip.lane_engines)
            }
        return self._sequencers[id(chip)][unit_of(self.lives.local(self.lives.times[index].unit))]

    @cached_property
    def _sequencers(self) -> dict[int, dict[str, _Sequencer]]:
        """Return the sequencers of each chip that was asked for, by its identity."""
        return {}

    @cached_property
    def _own(self) -> dict[int, list[Cause]]:
        """Return, by instruction, the causes that lie in its own queue."""
        found: dict[int, list[Cause]] = {}
        for queue in self.lives.queues.values():
            kind = type(self.lives.instruction(queue[0]))
            if issubclass(kind, LoadWeights | MatMul):
                each = self._array(queue)
            elif issubclass(kind, DmaCopy):
                each = self._dma(queue)
            elif issubclass(kind, Command):
                each = ([] for _ in queue)
            else:
                each = self._engine(queue)
            found |= zip(queue, each, strict=True)
        return found

    def _sequence(self, before: int | None) -> Iterator[Cause]:
        """Yield what the instruction before holds back by having started."""
        if before is not None:
            point = self.lives.start(before)
            decode = self._spec(before).decode_cycles
            ticks = decode * self.lives.period(before)
            yield Cause(point, point.tick + ticks, DISPATCH if decode else QUEUE)

    def _array(self, queue: Sequence[int]) -> Iterator[list[Cause]]:
        """Yield the rules of the weight buffer, and the least distance of two multiplies.

        They hold between an instruction and the last ones of the tiles that it meets.
        """
        lives, loads, multiplies = self.lives, dict[ArrayTile, int](), dict[ArrayTile, int]()
        late: ArrayTile | None = None  # of the instruction before, if it was a load that asked last
        for index in queue:
            instruction = lives.instruction(index)
            assert isinstance(instruction, LoadWeights | MatMul)
            tile = array_tile(instruction, lives.chip_of(index).pe_array)
            found = [_at(lives.last(load)) for other, load in loads.items() if other.meets(tile)]
            if late is not None and not late.meets(tile):
                found.append(self._behind_last(loads[late]))
            late = None
            met = [multiply for other, multiply in multiplies.items() if other.meets(tile)]
            if isinstance(instruction, LoadWeights):
                found[:0] = [_at(self._load_after(multiply)) for multiply in met]
                loads[tile] = index
                late = tile if self._asked_last(index, met) else None
            else:
                met += [
                    each
                    for other, each in multiplies.items()
                    if self._share_bank(each, index) and not other.meets(tile)
                ]
                for multiply in met:
                    found += self._multiply_after(multiply)
                multiplies[tile] = index
            yield found

    def _asked_last(self, load: int, multiplies: Sequence[int]) -> bool:
        """Return whether a load started in the cycle of an injection that it waited for."""
        array, start = self.lives.chip_of(load).pe_array, self.lives.start(load).tick
        if array.weight_buffer == "serial" or _Sequencer.of(array).serial_cycles:
            return False
        return any(self._load_after(each).tick == start for each in multiplies)

    def _behind_last(self, load: int) -> Cause:
        """Return what a load that asked last holds back: the next cycle is the first for others."""
        point = self.lives.start(load)
        return Cause(point, point.tick + self.lives.period(load), QUEUE)

    def _share_bank(self, one: int, other: int) -> bool:
        """Return whether two multiplies share a column and a bank of the result buffer."""
        array = self.lives.chip_of(one).pe_array
        tiles = [array_tile(self._multiply(i), array) for i in (one, other)]
        return tiles[0].columns.meets(tiles[1].columns) and self._bank(one) == self._bank(other)

    def _multiply(self, index: int) -> MatMul:
        instruction = self.lives.instruction(index)
        assert isinstance(instruction, MatMul)
        return instruction

    def _bank(self, multiply: int) -> int:
        """Return the bank of the result buffer that a multiply writes."""
        size = self.lives.chip_of(multiply).result_buffer.bank_bytes
        return self._multiply(multiply).result.span.first // size

    def _multiply_after(self, multiply: int) -> list[Cause]:
        """Return what holds back a multiply that must follow another one."""
        lives, array = self.lives, self.lives.chip_of(multiply).pe_array
        how, columns = lives.streaming[multiply], self._multiply(multiply).result.partitions
        least = min(array.min_vectors, columns) * how.vector_cycles
        return [
            _at(lives.last(multiply, cycles=how.spacing)),
            self._interval(multiply, max(array.min_interval_cycles, least)),
        ]

    def _load_after(self, multiply: int) -> Point:
        """Return the point of a multiply from which the next load may start."""
        lives, array = self.lives, self.lives.chip_of(multiply).pe_array
        if array.weight_buffer == "double":
            return lives.first(multiply)
        if array.weight_buffer == "single":
            return lives.last(multiply, before=True)
        tile = array_tile(self._multiply(multiply), array)
        down = array.hop[0] * ((tile.row + tile.rows) // array.cell[0])
        across = right_cycles(array, tile.columns.stop - 1)
        return lives.drained(multiply, array.entry_cycles + down + across)

    def _engine(self, queue: Sequence[int]) -> Iterator[list[Cause]]:
        """Yield when lanes are free, the least distance of two starts, when a table is loaded."""
        lives, before = self.lives, dict[int, int]()
        held: int | None = None
        apart = list[tuple[int, int]]()
        for index in queue:
            instruction = lives.instruction(index)
            assert isinstance(instruction, OnEngine)
            chip = lives.chip_of(index)
            spec = chip.engine(instruction.engine)
            loaded = table_loaded(instruction, spec, held)
            shared = range(*lanes(instruction)) if spec.independent_lanes else range(1)
            asked = shared if loaded is None else before
            users = dict.fromkeys(before[lane] for lane in asked if lane in before)
            yield [_at(lives.last(user)) for user in users] + [
                self._interval(earlier, cycles) for earlier, cycles in apart
            ]
            before.update(dict.fromkeys(shared, index))
            least = (index, pace_of(instruction, spec, chip).interval_cycles)
            if loaded is not None:
                held, apart = loaded, [least, (index, spec.table_cycles)]
            else:
                apart = [least, *apart[1:]]

    def _dma(self, queue: Sequence[int]) -> Iterator[list[Cause]]:
        """Yield when the queue has room for one more copy under way."""
        lives, most = self.lives, self.lives.chip_of(queue[0]).dma.outstanding
        for place in range(len(queue)):
            found = [_at(lives.end(queue[place - most]))] if place >= most else []
            if most > 1 and place:
                found.append(self._interval(queue[place - 1], 1))
            yield found

    def _interval(self, before: int, cycles: int) -> Cause:
        point = self.lives.start(before)
        return Cause(point, point.tick + cycles * self.lives.period(before), INTERVAL)

    # -- a copy in line, and instruction fetch -----------------------------------------------------

    def in_line(self, index: int) -> Cause | None:
        """Return the copy whose end another waited for before its first descriptor, if it did."""
        lives = self.lives
        if not isinstance(lives.instruction(index), DmaCopy):
            return None
        if lives.begin(index) <= lives.ready(index):
            return None
        return _at(lives.end(self._before[index]))

    def end_before(self, index: int) -> Point | None:
        """Return the end of the instruction before it in its queue."""
        return self.lives.end(self._before[index]) if index in self._before else None

    @cached_property
    def _before(self) -> dict[int, int]:
        """Return the instruction before each in its queue; the first of a queue has none."""
        queues = self.lives.queues.values()
        return {b: a for queue in queues for a, b in pairwise(queue)}

    def fetch_before(self, index: int) -> int | None:
        """Return the instruction whose fetch another's waited for, if it did."""
        before = self._fetch_before.get(index)
        if before is None or self.path_free(before) < self.lives.fetches[index].begin:
            return None
        return before

    def slot_before(self, index: int) -> Point | None:
        """Return the start that a fetch waited for, as it gave up a slot; None at cycle 0."""
        return self.slot_given(index) if self.lives.fetches[index].begin else None

    def slot_given(self, index: int) -> Point | None:
        """Return the start that gave up the slot of the buffer; None if one was free at cycle 0."""
        spec = self.lives.chip_of(index).fetch
        queue = self.lives.queues[self.lives.fetches[index].unit]
        assert spec is not None
        place = self._place[index] - spec.buffer_instructions
        return self.lives.start(queue[place]) if place >= 0 else None

    def fetch_cycle_after(self, tick: int, index: int = 0) -> int:
        """Return the first cycle of an instruction's fetch that begins after a tick."""
        period = self.lives.chip_of(index).fetch_period
        return (tick // period + 1) * period

    def fetch_after(self, index: int) -> int | None:
        """Return the instruction that was fetched after another, by the one path."""
        return self._fetch_after.get(index)

    def path_free(self, index: int) -> int:
        """Return the tick from which the path was free again after the fetch of an instruction."""
        chip = self.lives.chip_of(index)
        assert chip.fetch is not None
        latency = chip.fetch.latency_cycles * chip.fetch_period
        return self.lives.fetches[index].arrival - latency

    @cached_property
    def _fetch_before(self) -> dict[int, int]:
        paths: dict[int, list[int]] = {}
        for each in self.lives.trace.fetches:
            paths.setdefault(self._path(each.instruction), []).append(each.instruction)
        return {b: a for order in paths.values() for a, b in pairwise(order)}

    def _path(self, index: int) -> int:
        """Return a number for the path that fetches an instruction: each program has its own."""
        return self.lives.joint.launch_of[index] if isinstance(self.lives, JointLives) else 0

    @cached_property
    def _fetch_after(self) -> dict[int, int]:
        return {a: b for b, a in self._fetch_before.items()}

    @cached_property
    def _place(self) -> dict[int, int]:
        """Return the place of every instruction in its queue."""
        return {
            index: place
            for queue in self.lives.queues.values()
            for place, index in enumerate(queue)
        }


class _Sequencer(NamedTuple):
    """The cycles of dispatch that come on top (serial), and that run behind the one before."""

    serial_cycles: int
    decode_cycles: int

    @classmethod
    def of(cls, spec: PEArray | Engine | Dma) -> _Sequencer:
        """Return the sequencer of a unit."""
        if spec.dispatch == "serial":
            return cls(spec.dispatch_cycles, 0)
        return cls(0, spec.dispatch_cycles)


def _at(point: Point) -> Cause:
    """Return the cause that is a point itself: nothing passes behind it."""
    return Cause(point, point.tick, QUEUE)
