"""The checker for a program of several cores: the joint order of all their queues.

What can be started is started, in no particular order, until nothing can: what is left is stuck.
In the joint order an instruction comes before another that stands behind it in its queue, that
waits for a post of it, or that follows one of these. Two accesses of different places to the same
bytes, one of them a write, that have no order are a race; bytes that are read, and that no
instruction before writes nor an input holds, are unwritten.

The order here is the order of whole instructions, and what it finds is surely wrong. The finer
order within one core, and races between its own units, are found in programs of one core (`lint`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from systolic.errors import ProgramError
from systolic.hw.spec import MultiCoreChip
from systolic.hw.spec.places import ChipPlace, place_of
from systolic.isa.access import Access, Buffer
from systolic.isa.effects import reads, times, writes
from systolic.isa.footprint import Footprint
from systolic.isa.formats.chip_module import ChipModule
from systolic.isa.instruction import Command, DmaCopy, DmaMove, Instruction, RemotePost
from systolic.isa.joint import JointProgram
from systolic.isa.legality.chip_program import check_chip_program, copy_ends
from systolic.isa.lint.diagnostic import Code, Diagnostic

MOST_SHOWN = 5
DRAM = "dram"


def lint_chip(module: ChipModule, chip: MultiCoreChip) -> list[Diagnostic]:
    """Return all findings; inputs of the program, and nothing else, are there at cycle 0."""
    try:
        check_chip_program(module, chip)
    except ProgramError as error:
        return [Diagnostic("illegal", "error", str(error))]
    joint = JointProgram.of(module, chip)
    order = _Order(joint)
    found = list(order.stuck())
    if not found:
        found += _races(joint, order)
        found += _lost_posts(module, joint)
    return found


def require_clean_chip(module: ChipModule, chip: MultiCoreChip) -> None:
    """Raise ProgramError with the first errors of a program; nothing happens if it has none."""
    errors = [each for each in lint_chip(module, chip) if each.severity == "error"]
    if errors:
        shown = "; ".join(f"{d.code}: {d.message}" for d in errors[:MOST_SHOWN])
        more = len(errors) - MOST_SHOWN
        raise ProgramError(f"{module.name}: {shown}{f'; and {more} more' if more > 0 else ''}")


def _named(joint: JointProgram, index: int) -> str:
    """Return how messages name an instruction: ``core1: instruction 3 (DmaCopy)``."""
    launch = joint.launches[joint.launch_of[index]]
    instruction = joint.program.instructions[index]
    number = index - launch.first_instruction
    if isinstance(instruction, Command):
        return f"{launch.at}: command {number} ({instruction.word})"
    return f"{launch.at}: instruction {number} ({_kind(instruction)})"


def _kind(instruction: Instruction) -> str:
    return "DmaCopy" if isinstance(instruction, DmaMove) else type(instruction).__name__


class _Order:
    """An order in which all can start, and which start surely comes before which.

    clock: int32 [instructions, queues], the last position of each queue that comes before.
    """

    def __init__(self, joint: JointProgram) -> None:
        self._joint = joint
        self._instructions = joint.program.instructions
        self._queues = self._queue_lists()
        self.queue = np.zeros(len(self._instructions), np.int64)
        self.position = np.zeros(len(self._instructions), np.int64)
        for number, queue in enumerate(self._queues):
            self.queue[queue], self.position[queue] = number, range(len(queue))
        self._counts = [0] * len(joint.program.semaphores)
        self._posters: list[list[int]] = [[] for _ in self._counts]
        self._next = [0] * len(self._queues)
        self.order: list[int] = []
        self._ended = Counter[int]()
        self._run()
        self.clock = np.full((len(self._instructions), len(self._queues)), -1, np.int32)
        self._settle()

    def _queue_lists(self) -> list[list[int]]:
        """Return the queues of every launch; of processors the commands and copies in order too."""
        found = []
        for number, launch in enumerate(self._joint.launches):
            queues = self._joint.queues[number]
            if launch.section.place.kind == "processor":
                first = launch.first_instruction
                found.append([*range(first, first + len(launch.program.instructions))])
            else:
                found += queues.values()
        return found

    def _run(self) -> None:
        """Start whatever can be started until nothing can."""
        progress = True
        while progress:
            progress = False
            for number, queue in enumerate(self._queues):
                while self._next[number] < len(queue):
                    index = queue[self._next[number]]
                    if not self._can_start(index):
                        break
                    self._start(index)
                    self._next[number] += 1
                    progress = True

    def _can_start(self, index: int) -> bool:
        instruction = self._instructions[index]
        launch = self._joint.launches[self._joint.launch_of[index]]
        if launch.by is not None and self._start_of(launch.by) not in self._ended:
            return False
        if isinstance(instruction, DmaCopy) and launch.section.place.kind == "processor":
            return True  # it stands in its queue; what it waits for holds up that queue
        return all(self._counts[w.semaphore] >= w.value for w in instruction.waits)

    def _start_of(self, by: tuple[ChipPlace, int]) -> int:
        """Return the command that starts a launch."""
        place, number = by
        launch = next(each for each in self._joint.launches if each.section.place == place)
        return launch.first_instruction + number

    def _start(self, index: int) -> None:
        self.order.append(index)
        self._ended[index] = 1
        instruction = self._instructions[index]
        chip = self._joint.chip.feeder_chips[
            self._joint.launches[self._joint.launch_of[index]].section.place
        ]
        for post in instruction.posts:
            self._counts[post.semaphore] += times(instruction, post, chip)
            self._posters[post.semaphore].append(index)

    def stuck(self) -> Iterator[Diagnostic]:
        """Yield a finding for each queue that cannot go on."""
        totals = self._totals()
        for number, queue in enumerate(self._queues):
            if self._next[number] == len(queue):
                continue
            index = queue[self._next[number]]
            instruction = self._instructions[index]
            for wait in instruction.waits:
                if self._counts[wait.semaphore] < wait.value:
                    yield self._waiting(index, wait.semaphore, wait.value, totals)
                    break

    def _totals(self) -> Counter[int]:
        totals = Counter[int]()
        for index, instruction in enumerate(self._instructions):
            launch = self._joint.launches[self._joint.launch_of[index]]
            chip = self._joint.chip.feeder_chips[launch.section.place]
            for post in instruction.posts:
                totals[post.semaphore] += times(instruction, post, chip)
        return totals

    def _waiting(self, index: int, semaphore: int, value: int, totals: Counter[int]) -> Diagnostic:
        launch = self._joint.launches[self._joint.launch_of[index]]
        name = self._joint.program.semaphores[semaphore]
        text = (
            f"{_named(self._joint, index)} waits for semaphore "
            f"s{semaphore - launch.first_semaphore} ({name}) to reach {value}"
        )
        code: Code = "deadlock"
        if totals[semaphore] < value:
            code, text = "never-posted", f"{text}, but all cores post it {totals[semaphore]} times"
        else:
            text += f", it gets to {self._counts[semaphore]}: who posts it is stuck too"
        kind = _kind(self._instructions[index])
        return Diagnostic(code, "error", text, ((index, kind),))

    def _settle(self) -> None:
        clock, queue, position = self.clock, self.queue, self.position
        before: dict[int, int] = {}
        for index in self.order:
            mine = clock[index]
            number = int(queue[index])
            sources = [before[number]] if number in before else []
            instruction = self._instructions[index]
            for wait in instruction.waits:
                sources += self._posters[wait.semaphore] if wait.value > 0 else []
            launch = self._joint.launches[self._joint.launch_of[index]]
            if launch.by is not None and number not in before:
                sources.append(self._start_of(launch.by))
            for source in sources:
                np.maximum(mine, clock[source], out=mine)
            mine[number] = position[index]
            before[number] = index

    def comes_before(self, one: int, other: int) -> bool:
        """Return whether one of two instructions may be done before the other starts."""
        return bool(self.clock[other, self.queue[one]] >= self.position[one])


class _Touch(NamedTuple):
    """Bytes of a memory that an instruction reads or writes."""

    low: int
    high: int
    instruction: int
    is_write: bool
    footprint: Footprint


def _touches(joint: JointProgram) -> dict[str, list[_Touch]]:
    """Return, by memory (a buffer of a core, or DRAM), what is read and written."""
    found: defaultdict[str, list[_Touch]] = defaultdict(list)
    for index, instruction in enumerate(joint.program.instructions):
        at = joint.launches[joint.launch_of[index]].at
        for place, access, is_write in _accesses(instruction, at):
            footprint = Footprint.of(access)
            memory = DRAM if access.buffer is Buffer.DRAM else f"{place}.{access.buffer}"
            touch = _Touch(footprint.low, footprint.high, index, is_write, footprint)
            found[memory].append(touch)
    return found


def _accesses(instruction: Instruction, at: str) -> Iterator[tuple[str, Access, bool]]:
    if isinstance(instruction, DmaMove):
        ends = copy_ends(instruction)
        yield ends[0][1] or at, ends[0][2], False
        if instruction.brings_code:
            return
        for _, place, access in ends[1:]:
            if instruction.accumulate:
                yield place or at, access, False
            yield place or at, access, True
    elif not isinstance(instruction, Command):
        for access in reads(instruction):
            yield at, access, False
        for access in writes(instruction):
            yield at, access, True


def _races(joint: JointProgram, order: _Order) -> Iterator[Diagnostic]:
    """Yield races between places, and reads of bytes that nothing has written."""
    there = _inputs(joint)
    for memory, touches in _touches(joint).items():
        touches.sort(key=lambda touch: (touch.low, touch.instruction))
        places = {joint.launch_of[touch.instruction] for touch in touches}
        said: set[tuple[int, int]] = set()
        live: list[_Touch] = []
        written: list[Footprint] = there.get(memory, [])
        for touch in touches:
            live = [each for each in live if each.high > touch.low]
            if len(places) > 1:
                for other in live:
                    yield from _race(joint, order, memory, (touch, other), said)
            live.append(touch)
        yield from _unwritten(joint, order, memory, touches, written)


def _race(
    joint: JointProgram,
    order: _Order,
    memory: str,
    pair: tuple[_Touch, _Touch],
    said: set[tuple[int, int]],
) -> Iterator[Diagnostic]:
    one, other = sorted(pair, key=lambda touch: touch.instruction)
    key = one.instruction, other.instruction
    if key in said or not (one.is_write or other.is_write) or one.instruction == other.instruction:
        return
    if joint.launch_of[one.instruction] == joint.launch_of[other.instruction]:
        return
    if order.comes_before(*key) or order.comes_before(other.instruction, one.instruction):
        return
    if not one.footprint.meets(other.footprint):
        return
    said.add(key)
    if one.is_write and other.is_write:
        code: Code = "write-after-write"
        what = "both write"
    else:
        code = "read-after-write" if one.is_write else "write-after-read"
        what = "one writes and the other reads"
    box = one.footprint.shared_box(other.footprint)
    text = str(box).replace(str(box.buffer), memory, 1)
    kinds = tuple((each, _kind(joint.program.instructions[each])) for each in key)
    yield Diagnostic(
        code,
        "error",
        f"{_named(joint, one.instruction)} and {_named(joint, other.instruction)}: {what} "
        f"{text}, and no wait says which comes first",
        kinds,
        box,
    )


def _inputs(joint: JointProgram) -> dict[str, list[Footprint]]:
    found: defaultdict[str, list[Footprint]] = defaultdict(list)
    for section in joint.module.sections:
        for access in section.module.input_accesses:
            memory = DRAM if access.buffer is Buffer.DRAM else f"{section.at}.{access.buffer}"
            found[memory].append(Footprint.of(access))
    return found


def _unwritten(
    joint: JointProgram,
    order: _Order,
    memory: str,
    touches: list[_Touch],
    there: list[Footprint],
) -> Iterator[Diagnostic]:
    """Yield reads whose bytes are neither an input's nor written by what may come before."""
    writers = [touch for touch in touches if touch.is_write]
    for touch in touches:
        if touch.is_write or any(touch.footprint.boxes_meet(each) for each in there):
            continue
        if any(
            writer.instruction != touch.instruction
            and touch.footprint.boxes_meet(writer.footprint)
            and not order.comes_before(touch.instruction, writer.instruction)
            for writer in writers
        ):
            continue
        region = touch.footprint.region
        text = str(region).replace(str(region.buffer), memory, 1)
        yield Diagnostic(
            "unwritten",
            "error",
            f"{_named(joint, touch.instruction)} reads {text}, which nothing has written, nor is "
            "it an input",
            ((touch.instruction, _kind(joint.program.instructions[touch.instruction])),),
            region,
        )


def _lost_posts(module: ChipModule, joint: JointProgram) -> Iterator[Diagnostic]:
    """Yield a warning for posts to a core that starts later: they are lost if they come sooner."""
    starts = {launch.at for launch in joint.launches if launch.by is not None}
    for section in module.sections:
        for number, instruction in enumerate(section.module.program.instructions):
            for post in instruction.posts:
                if not isinstance(post, RemotePost) or post.at not in starts:
                    continue
                before = section.module.program.instructions[:number]
                if section.place.kind == "processor" and not _starts(before, post.at):
                    yield Diagnostic(
                        "lost-post",
                        "warning",
                        f"{section.at}: command {number} posts to {post.at} before it starts it: "
                        "a post that is visible before the start is lost",
                    )


def _starts(before: tuple[Instruction, ...], at: str) -> bool:
    """Return whether one of some commands starts a core."""
    place = place_of(at)
    return any(
        isinstance(each, Command) and each.word == "start" and place_of(each.at) == place
        for each in before
    )
