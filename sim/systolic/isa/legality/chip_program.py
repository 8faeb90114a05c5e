"""Is a program of several cores legal on a chip? What its sections may do, each and together.

The rules of instructions within a core stand in `program`. Not here: races, deadlocks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from systolic.errors import ProgramError, listed, perhaps
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Dma, MultiCoreChip
from systolic.hw.spec.places import ChipPlace, place_of
from systolic.isa.access import Access, Buffer
from systolic.isa.formats.chip_module import ChipModule, Section
from systolic.isa.formats.module import check_bindings_on
from systolic.isa.formats.pack import instruction_bytes
from systolic.isa.instruction import Command, DmaCopy, DmaMove, Instruction, RemotePost
from systolic.isa.instruction.on_dma import CODE
from systolic.isa.launches import started_section
from systolic.isa.legality.accesses import check_access, check_words
from systolic.isa.legality.program import check_program
from systolic.isa.program import Program


def check_chip_program(module: ChipModule, chip: MultiCoreChip) -> None:
    """Raise ProgramError for the first section or instruction that the chip cannot execute."""
    _check_places(module, chip)
    cores = [section for section in module.sections if section.place.kind == "core"]
    for section in module.sections:
        if section not in cores:
            _check_processor(section, Around(module, chip, section.place))
    _check_starts(module, chip)  # behind the commands, which say more of why none starts a core
    for section in cores:
        core_chip = chip.core_chips[section.place.number]
        check_program(section.module.program, core_chip, Around(module, chip, section.place))
        check_bindings_on(section.module, core_chip)
    _check_shares(module, chip)


def code_bytes(program: Program) -> int:
    """Return the bytes of a program's code: of its instructions in the binary form."""
    return sum(map(instruction_bytes, program.instructions))


@dataclass(frozen=True, slots=True)
class Around:
    """What is around a section: the chip, the other sections, and its own place."""

    module: ChipModule
    chip: MultiCoreChip
    place: ChipPlace

    @property
    def dma(self) -> Dma | None:
        """Return the queues that the section feeds."""
        return dict(self.chip.feeders).get(self.place)

    def check_post(self, post: RemotePost) -> None:
        """Raise ProgramError unless the place posted to is there, and has the semaphore."""
        place = self._there(post.at)
        counts = [
            len(section.module.program.semaphores)
            for section in self.module.sections
            if section.place == place
        ]
        if not counts:
            raise ProgramError(f"post to {post.at}, which has no program")
        if not 0 <= post.semaphore < max(counts):
            raise ProgramError(
                f"semaphore {post.semaphore} of {post.at} does not exist (there are {max(counts)})"
            )

    def _there(self, at: str) -> ChipPlace:
        """Return the place of a name; ProgramError if the chip has no such."""
        place = place_of(at)
        many = {
            "core": self.chip.core_count,
            "processor": len(self.chip.processor_specs),
        }
        if place is None or place.number >= many[place.kind]:
            kind = "core" if place is None else place.kind
            raise ProgramError(f"{at} is not there: {self.chip.name} has {_counted(many, kind)}")
        return place

    def check_move(self, copy: DmaCopy) -> None:
        """Raise ProgramError unless a queue of the place can make the copy."""
        queues = self.dma.queues if self.dma else 0
        if not 0 <= copy.dma_queue < queues:
            raise ProgramError(
                f"DMA queue {copy.dma_queue} of {self.place} does not exist (there are {queues})"
            )
        ends = copy_ends(copy)
        for name, at, access in ends:
            self._check_end(name, at, access)
        source = ends[0]
        elements = source[2].partitions * source[2].elements
        for name, _, access in ends[1:]:
            if access.partitions * access.elements != elements:
                raise ProgramError(
                    f"source has {elements} elements, {name} {access.partitions * access.elements}"
                )
            if access.dtype != source[2].dtype:
                raise ProgramError(
                    f"DMA does not cast: source {source[2].dtype}, {name} {access.dtype}"
                )
            self._check_way(source, (name, at, access))
        if isinstance(copy, DmaMove):
            self._check_reduction(copy)

    def _check_end(self, name: str, at: str, access: Access) -> None:
        if at.endswith(f".{CODE}"):
            self._check_code(name, at.removesuffix(f".{CODE}"), access)
            return
        place = self.place if at == "" else self._there(at)
        if access.buffer is not Buffer.DRAM and place.kind != "core":
            raise ProgramError(
                f"{name}: {place} has no {access.buffer}: needed dram, or a core such as "
                f"core0.{access.buffer}"
            )
        chip = self.chip.core_chips[place.number if place.kind == "core" else 0]
        check_access(name, access, chip)
        check_words(name, access)
        if access.buffer is Buffer.RESULT:
            if name != "source":
                raise ProgramError(f"{name}: must lie in a state buffer or in DRAM, found {access}")
            if not chip.result_buffer.dma_readable:
                raise ProgramError(
                    f"{name}: DMA reads the result buffer only where "
                    "result_buffer.dma_readable = true"
                )

    def _check_code(self, name: str, at: str, access: Access) -> None:
        fetch = self.chip.fetch
        if self.chip.code != "dram" or fetch is None:
            raise ProgramError(
                f'{name}: cores of {self.chip.name} have no code to be brought (code = "dram")'
            )
        if name != "target" or not at or self._there(at).kind != "core":
            raise ProgramError(f"{name}: code is the target of copies, such as core0.code")
        if self.place.kind != "processor":
            raise ProgramError(f"{name}: code is brought by processors, not by {self.place}")
        _, high = access.low_and_high
        if access.partitions != 1 or access.partition or high > fetch.code_bytes:
            raise ProgramError(
                f"{name}: bytes up to {high - 1} of {at}.code, which has {fetch.code_bytes} "
                "(fetch.code_bytes)"
            )

    def _check_way(self, source: tuple[str, str, Access], target: tuple[str, str, Access]) -> None:
        if Buffer.DRAM in (source[2].buffer, target[2].buffer):
            return  # every place has a way to every controller
        first, last = (place_of(at) or self.place for _, at, _ in (source, target))
        if self.chip.way(first, last) is None:
            raise ProgramError(
                f"{self.chip.name} has no way from {first} to {last}: it has no [interconnect]"
            )

    def _check_reduction(self, copy: DmaMove) -> None:
        if copy.accumulate and copy.duplicate is not None:
            raise ProgramError("a copy adds to its target, or has a second one; not both")
        if copy.accumulate and data_type(copy.source.dtype).packed > 1:
            raise ProgramError(f"accumulate: elements of {copy.source.dtype} are not added")
        organised = any(d.organisation is not None for d in self.chip.controller_drams)
        targets = [access.buffer for _, _, access in copy_ends(copy)[1:]]
        if organised and copy.duplicate is not None and set(targets) == {Buffer.DRAM}:
            raise ProgramError(
                f"target and second target both lie in DRAM, which has banks on {self.chip.name}: "
                "needed one of them on a core"
            )


def copy_ends(copy: DmaCopy) -> list[tuple[str, str, Access]]:
    """Return the ends of a copy: name, the core that it names ("": the program's), access."""
    if not isinstance(copy, DmaMove):
        return [("source", "", copy.source), ("target", "", copy.target)]
    ends = [("source", copy.source_at, copy.source), ("target", copy.target_at, copy.target)]
    if copy.duplicate is not None:
        ends.append(("duplicate", copy.duplicate_at, copy.duplicate))
    return ends


def _counted(many: dict[str, int], kind: str) -> str:
    count = many[kind]
    return f"{count} {kind}s, from 0" if count != 1 else f"1 {kind}, {kind}0"


def _check_places(module: ChipModule, chip: MultiCoreChip) -> None:
    """Refuse a program for more cores or processors than there are."""
    for kind, needed, there in (
        ("core", module.cores_needed, chip.core_count),
        ("processor", module.processors_needed, len(chip.processor_specs)),
    ):
        if needed > there:
            raise ProgramError(
                f"{module.name}: is for {needed} {kind}s, counted to {kind}{needed - 1}, but "
                f"{chip.name} has {there}"
            )


def _check_starts(module: ChipModule, chip: MultiCoreChip) -> None:
    """Refuse programs that never start, or that start at once on one core."""
    started = [
        started_section(module, command)
        for section in module.sections
        for command in section.module.program.instructions
        if isinstance(command, Command) and command.word == "start"
    ]
    programs = Counter(section.at for section in module.sections)
    for section in module.sections:
        if section.place.kind == "processor":
            if programs[section.at] > 1:
                raise ProgramError(f"{section.at} has {programs[section.at]} programs; needed one")
        elif not section.module.program.instructions:
            continue
        elif not chip.processors and programs[section.at] > 1:
            raise ProgramError(
                f"{section.at} has {programs[section.at]} programs, and {chip.name} has no "
                "processor that starts one after the other; needed one"
            )
        elif chip.processors and section not in started:
            raise ProgramError(
                f"{section.at}: its program {section.name} is never started: {chip.name} has "
                f"processors, so a processor's section needs a line such as start {section.at}"
            )


def _check_processor(section: Section, around: Around) -> None:
    program = section.module.program
    brought: Counter[str] = Counter()
    if section.module.inputs or section.module.outputs:
        for binding in (*section.module.inputs, *section.module.outputs):
            for access in binding.accesses:
                if access.buffer is not Buffer.DRAM:
                    raise ProgramError(f'{section.at}: "{binding.name}" needs a place in DRAM')
        check_bindings_on(section.module, around.chip.core_chips[0])
    for index, instruction in enumerate(program.instructions):
        try:
            _check_command(instruction, program, around, brought)
        except ProgramError as error:
            what = instruction.word if isinstance(instruction, Command) else "copy"
            raise ProgramError(f"{section.at}: command {index} ({what}): {error}") from None
    _refuse_waiting_for_itself(section, around.module)


def _check_command(
    instruction: Instruction, program: Program, around: Around, brought: Counter[str]
) -> None:
    for wait in instruction.waits:
        if not 0 <= wait.semaphore < len(program.semaphores):
            raise ProgramError(
                f"semaphore {wait.semaphore} does not exist (there are {len(program.semaphores)})"
            )
    for post in instruction.posts:
        if isinstance(post, RemotePost):
            around.check_post(post)
        elif not 0 <= post.semaphore < len(program.semaphores):
            raise ProgramError(
                f"semaphore {post.semaphore} does not exist (there are {len(program.semaphores)})"
            )
        if post.on != "done":
            raise ProgramError(f'only a MatMul can post on "{post.on}"')
    if isinstance(instruction, DmaCopy):
        around.check_move(instruction)
        if isinstance(instruction, DmaMove) and instruction.brings_code:
            brought[instruction.target_at.removesuffix(f".{CODE}")] += instruction.target.size_bytes
    elif isinstance(instruction, Command):
        if instruction.word == "start":
            _check_start(instruction, around, brought)
        elif instruction.word == "ring":
            _check_ring(instruction)


def _check_ring(command: Command) -> None:
    for post in command.posts:
        if not (isinstance(post, RemotePost) and post.at.startswith("processor")):
            raise ProgramError("a doorbell is another processor's: needed such as processor1.s0")


def _check_start(command: Command, around: Around, brought: Counter[str]) -> None:
    chip, module = around.chip, around.module
    place = around._there(command.at)
    if place.kind != "core":
        raise ProgramError(f"needed a core such as core0, found {command.at}")
    feeds = chip.processor_specs[around.place.number].feeds
    if feeds is not None and place.number not in feeds:
        raise ProgramError(
            f"{around.place} does not look after {command.at} (feeds: {listed(map(str, feeds))})"
        )
    section = started_section(module, command)
    if section is None:
        names = [each.name for each in module.sections if each.place == place]
        if not names:
            raise ProgramError(f"{command.at} has no program")
        if not command.program:
            raise ProgramError(f"{command.at} has several programs: needed one of {listed(names)}")
        raise ProgramError(
            f'{command.at} has no program "{command.program}" (it has: {listed(names)})'
            f"{perhaps(command.program, names)}"
        )
    if chip.code == "dram" and chip.fetch is not None:
        needed = code_bytes(section.module.program)
        if needed > chip.fetch.code_bytes:
            raise ProgramError(
                f"the code of {section.name} has {needed} bytes, {command.at}.code "
                f"{chip.fetch.code_bytes} (fetch.code_bytes)"
            )
        if brought[command.at] < needed:
            raise ProgramError(
                f"the code of {section.name} has {needed} bytes, but copies before it bring "
                f"{brought[command.at]} to {command.at}.code"
            )
        brought[command.at] = 0


def _refuse_waiting_for_itself(section: Section, module: ChipModule) -> None:
    """Refuse a wait that only commands behind it could satisfy."""
    program = section.module.program
    others: Counter[int] = Counter()
    for each in module.sections:
        for instruction in each.module.program.instructions:
            for post in instruction.posts:
                if isinstance(post, RemotePost) and post.at == section.at and each != section:
                    others[post.semaphore] += 1
    own: Counter[int] = Counter()
    later: Counter[int] = Counter(
        post.semaphore
        for instruction in program.instructions
        for post in instruction.posts
        if not isinstance(post, RemotePost) or post.at == section.at
    )
    for index, instruction in enumerate(program.instructions):
        if isinstance(instruction, Command) and instruction.word == "wait":
            for wait in instruction.waits:
                reach = own[wait.semaphore] + others[wait.semaphore]
                if reach < wait.value <= others[wait.semaphore] + later[wait.semaphore]:
                    raise ProgramError(
                        f"{section.at}: command {index} (wait): waits for itself: semaphore "
                        f"{wait.semaphore} ({program.semaphores[wait.semaphore]}) reaches "
                        f"{wait.value} only by its own later commands"
                    )
        for post in instruction.posts:
            if not isinstance(post, RemotePost) or post.at == section.at:
                own[post.semaphore] += 1


def _check_shares(module: ChipModule, chip: MultiCoreChip) -> None:
    """Refuse copies that accumulate where a pool could leave one of its shares without a byte."""
    queues = sum(dma.queues for _, dma in chip.feeders)
    twice = {
        (section.at, instruction.dma_queue)
        for section in module.sections
        for instruction in section.module.program.instructions
        if isinstance(instruction, DmaMove) and instruction.accumulate
    }
    thrice = twice | {
        (section.at, instruction.dma_queue)
        for section in module.sections
        for instruction in section.module.program.instructions
        if isinstance(instruction, DmaMove) and _is_within_dram_twice(instruction)
    }
    wires = chip.interconnect
    if wires is not None and twice and wires.bytes_per_cycle < queues + len(twice):
        raise ProgramError(
            f"{module.name}: {len(twice)} DMA queues accumulate, which holds two shares of a pool: "
            f"interconnect.bytes_per_cycle ({wires.bytes_per_cycle}) is less than "
            f"{queues + len(twice)} shares"
        )
    for number, dram in enumerate(chip.controller_drams):
        if dram.organisation is None and thrice and dram.bytes_per_cycle < 2 * queues + len(thrice):
            raise ProgramError(
                f"{module.name}: {len(thrice)} DMA queues accumulate, or write twice within DRAM, "
                f"which may hold three shares of controller{number}: its dram.bytes_per_cycle "
                f"({dram.bytes_per_cycle}) is less than {2 * queues + len(thrice)}"
            )


def _is_within_dram_twice(copy: DmaMove) -> bool:
    """Return whether a copy has two targets, and all of it lies in DRAM."""
    ends = [access.buffer for _, _, access in copy_ends(copy)]
    return len(ends) > 2 and set(ends) == {Buffer.DRAM}
