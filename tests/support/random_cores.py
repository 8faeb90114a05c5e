"""Random chips of several cores, and race-free programs for them that share all that can be shared.

Race-free as `random_programs`: what is read is there at cycle 0 and never written, or was written
by what the reader waits for; every result has a place of its own. Waits between cores are for posts
of instructions drawn before, so nothing stands still, unless a post is lost with a start.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import lcm
from random import Random
from typing import Any

from support.random_programs import (
    RandomProgram,
    aside,
    random_chip,
    random_dma,
    spread_over_engines,
)
from support.random_sequencing import sequenced
from support.random_transfers import random_organisation
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.isa import (
    Access,
    Buffer,
    ChipModule,
    Instruction,
    Module,
    Post,
    Program,
    Section,
    Wait,
)
from systolic.isa.instruction import Command, DmaCopy, DmaMove, MatMul, RemotePost
from systolic.isa.legality.chip_program import code_bytes
from systolic.machine import Image

DRAM_OF_CORE = 1 << 14
"""Bytes of DRAM in which each core writes."""
CONSTANTS, MOVED = 128, ("f32", "s8", "bf16", "s32")


def random_cores(rng: Random, *, most: int = 4, processors: bool = False) -> MultiCoreChip:
    """Return a chip of two to `most` cores of at most 4 x 4, every number drawn at random."""
    many = rng.randint(2, most)
    clocks, banks = rng.random() < 0.5, aside(rng, "banks")
    is_banked = banks.random() < 0.4
    kinds = [_core(rng, clocks, is_banked=is_banked) for _ in range(rng.randint(1, many))]
    cores = [rng.choice(kinds) for _ in range(many)]
    fed = [_fed_dma(rng, clocks) for _ in range(rng.randint(1, 2))] if processors else []
    if is_banked:  # timings of DRAM are cycles of all queues
        fed = [dma | {"clock": "chip"} for dma in fed]
    queues = sum(c.dma.queues for c in cores) + sum(f["queues"] for f in fed if f)
    parts: dict[str, Any] = {
        "name": "random cores",
        "clock": {"chip": 1000, "wires": rng.choice([1000, 500, 1500]) if clocks else 1000},
        "cores": [{"core": core} for core in cores],
        **_controllers(rng, queues, many),
    }
    if is_banked:
        parts["controllers"] = _with_banks(banks, parts["controllers"])
    kind = rng.choice(["crossbar", "ring", "mesh", "mesh", "mesh", "none"])
    wires = {
        "kind": kind,
        "bytes_per_cycle": 2 * queues + rng.choice([0, 1, 3, 17, 40]),
        "hop_cycles": rng.choice([0, 1, 3]),
        "post_cycles": rng.choice([0, 0, 1, 5]),
        "clock": rng.choice(["chip", "wires"]),
    }
    if kind == "mesh":
        wires["shape"] = rng.choice(_shapes(many))
    if kind != "none":
        parts["interconnect"] = wires
    if processors:
        parts["processors"] = [_processor(rng, dma, many) for dma in fed]
        if rng.random() < 0.4:
            parts |= {"code": "dram", "fetch": {"code_bytes": 1 << 16}}
    return MultiCoreChip.model_validate(parts)


def _with_banks(rng: Random, tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the controllers with one organisation for all of them, or for some."""
    drawn = random_organisation(rng)
    rows = drawn["organisation"]["banks"] * drawn["organisation"]["channels"]
    unit = rows * drawn["organisation"]["row_bytes"]
    stripe = drawn["organisation"]["interleave_bytes"] * drawn["organisation"]["channels"]
    size = lcm(unit, stripe, 4096) * -(-(1 << 18) // lcm(unit, stripe, 4096))
    plain = [rng.random() < 0.2 for _ in tables]
    plain[rng.randrange(len(tables))] = False
    found, is_ranged = [], "range" in tables[0]
    for table, is_plain in zip(tables, plain, strict=True):
        latency = rng.choice([0, 2, 5])
        dram = drawn | {"size_bytes": size, "latency_cycles": latency}
        dram = table["dram"] | {"size_bytes": size} if is_plain else dram
        made = table | {"dram": dram}
        if is_ranged:
            place = table["range"][0] // (1 << 18)
            made["range"] = (place * size, (place + 1) * size)
        found.append(made)
    return found


def _core(rng: Random, clocks: bool, *, is_banked: bool) -> Chip:
    chip = random_chip(
        rng, clocks=clocks and rng.random() < 0.5, largest=4, engines=rng.random() < 0.3
    )
    if rng.random() < 0.15 and not is_banked:
        chip = spread_over_engines(chip, rng)
    if rng.random() < 0.4:
        chip = sequenced(chip, rng)
    parts = chip.model_dump()
    parts["state_buffer"]["bytes_per_partition"] = 1 << 14
    if is_banked:
        parts["dma"]["clock"] = "core"
    return Chip.model_validate(parts)


def _fed_dma(rng: Random, clocks: bool) -> dict[str, Any] | None:
    return random_dma(rng, 2) | {"clock": rng.choice(["chip", "wires"]) if clocks else "chip"}


def _processor(rng: Random, dma: dict[str, Any] | None, many: int) -> dict[str, Any]:
    kinds = ("copy", "wait", "post", "start", "ring", "notify", "stop")
    made: dict[str, Any] = {
        "command_cycles": {kind: rng.choice([1, 1, 2, 4]) for kind in kinds if rng.random() < 0.6},
        "start_cycles": rng.choice([1, 1, 5]),
        "semaphore_cycles": rng.choice([1, 2]),
        "clock": rng.choice(["chip", "wires"]),
        "dma": dma,
    }
    if rng.random() < 0.3:
        made["at"] = rng.randrange(many)
    return made


def _controllers(rng: Random, queues: int, many: int) -> dict[str, Any]:
    """Return tables of one to three controllers, dealt out or in ranges."""
    count = rng.randint(1, 3)
    size = 1 << 18
    drams = [
        {
            "size_bytes": size,
            "bytes_per_cycle": 3 * queues + rng.choice([0, 1, 5, 30]),
            "latency_cycles": rng.choice([0, 2, 5]),
        }
        for _ in range(count)
    ]
    tables: list[dict[str, Any]] = [{"dram": dram} for dram in drams]
    for table in tables:
        if rng.random() < 0.3:
            table["at"] = rng.randrange(many)
    if rng.random() < 0.4:
        order = rng.sample(range(count), count)
        for place, number in enumerate(order):
            tables[number]["range"] = (place * size, (place + 1) * size)
        return {"controllers": tables}
    return {"controllers": tables, "interleave_bytes": rng.choice([16, 64, 256, 4096])}


def _shapes(many: int) -> list[tuple[int, int]]:
    return [(n, many // n) for n in range(1, many + 1) if many % n == 0]


@dataclass
class _Shared:
    """A semaphore of a section that several post: its number there, and its posts so far."""

    section: int
    number: int
    made: int = 0


@dataclass
class _Draft:
    """A section in the making."""

    at: str
    core: int
    made: RandomProgram
    instructions: list[Instruction] = field(default_factory=list)
    semaphores: int = 0


class RandomCores:
    """Builds one program of several cores."""

    def __init__(self, rng: Random, chip: MultiCoreChip) -> None:
        self.rng, self.chip = rng, chip
        self._used = [512] * chip.core_count
        self._drafts: list[_Draft] = []

    def build(self, length: int) -> tuple[ChipModule, dict[str, list[Image]]]:
        """Return a program of about that many instructions per core, and the memories' contents."""
        rng, chip = self.rng, self.chip
        images: dict[str, list[Image]] = {}
        for number, core in enumerate(chip.core_chips):
            for part in range(rng.choice([1, 1, 2]) if chip.processors else 1):
                made = RandomProgram(rng, core, elementwise=rng.random() < 0.5)
                made.dram_used = (1 + 2 * number + part) * DRAM_OF_CORE
                made.state_used = 512 + part * core.state_buffer.bytes_per_partition // 4
                half = core.state_buffer.bytes_per_partition // 4 * (part + 1)
                draft = _Draft(f"core{number}", number, made)
                program, contents = _bounded(made, rng.randint(0, length), half)
                draft.instructions = list(program.instructions)
                draft.semaphores = len(program.semaphores)
                own = images.setdefault(draft.at, [])
                if part == 0:
                    own += [i for i in contents if not (number and i.access.buffer is Buffer.DRAM)]
                else:
                    own += [i for i in contents if i.access.start >= 512]
                self._drafts.append(draft)
        self._moves()
        sections = self._linked()
        return ChipModule("cores", tuple(sections)), images

    # -- copies between cores ---------------------------------------------------------------------

    def _moves(self) -> None:
        for draft in self._drafts:
            for _ in range(self.rng.choice([0, 1, 2, 4, 6])):
                if (move := self._move(draft)) is not None:
                    at = self.rng.randint(0, len(draft.instructions))
                    draft.instructions.insert(at, move)

    def _move(self, draft: _Draft) -> DmaMove | None:
        rng = self.rng
        queues = self.chip.core_chips[draft.core].dma.queues
        return self.move(f"core{draft.core}", rng.randrange(queues), draft.made)

    def move(self, own: str, queue: int, made: RandomProgram) -> DmaMove | None:
        """Return a copy between two or three places, which reads constants."""
        rng = self.rng
        dtype, elements = rng.choice(MOVED), rng.randint(1, 24)
        source_at, source = self._from(own, dtype, elements)
        lanes, elements = source.partitions, source.elements
        target_at, target = self._into(own, made, dtype, lanes, elements)
        if target is None:
            return None
        kind, more, more_at = rng.random(), None, ""
        if kind < 0.3:
            more_at, more = self._into(own, made, dtype, lanes, elements)
            if more is not None and more.buffer is target.buffer is Buffer.DRAM and self._has_banks:
                more_at, more = "", None  # DRAM with banks is one of the targets at most
        accumulates = more is None and kind > 0.6
        return DmaMove(
            dma_queue=queue,
            source=source,
            target=target,
            source_at=source_at,
            target_at=target_at,
            accumulate=accumulates,
            duplicate=more,
            duplicate_at=more_at if more is not None else "",
        )

    def _from(self, own: str, dtype: str, elements: int) -> tuple[str, Access]:
        rng, size = self.rng, data_type(dtype).size_bytes
        if own.startswith("processor") or rng.random() < 0.3:
            many = rng.choice([1, 1, 2]) * elements
            start = rng.randint(0, 4096 // size - many) * size
            return "", Access(Buffer.DRAM, dtype, 0, 1, start, ((1, many),))
        number = self._reached(own)
        lanes = rng.randint(1, self._lanes(number))
        # Of the bytes that are constants of every type
        elements = min(elements, 256 // size)
        start = rng.randint(0, 256 // size - elements) * size
        first = rng.randint(0, self._lanes(number) - lanes)
        return f"core{number}", Access(Buffer.STATE, dtype, first, lanes, start, ((1, elements),))

    @property
    def _talks(self) -> bool:
        """Return whether there are ways between cores."""
        return self.chip.interconnect is not None

    @property
    def _has_banks(self) -> bool:
        return any(dram.organisation is not None for dram in self.chip.controller_drams)

    def _reached(self, own: str) -> int:
        """Return a core that copies of a place's queues may reach."""
        if self._talks or own.startswith("processor"):
            return self.rng.randrange(self.chip.core_count)
        return int(own.removeprefix("core"))

    def _lanes(self, number: int) -> int:
        return self.chip.core_chips[number].state_buffer.partitions

    def _into(
        self, own: str, made: RandomProgram, dtype: str, lanes: int, elements: int
    ) -> tuple[str, Access | None]:
        rng, size = self.rng, data_type(dtype).size_bytes
        if rng.random() < 0.4 or (own.startswith("processor") and not self._talks):
            start = -(-made.dram_used // 4) * 4 + 4 * rng.choice([0, 0, 3, 13])
            made.dram_used = start + lanes * elements * size
            return "", Access(Buffer.DRAM, dtype, 0, 1, start, ((1, lanes * elements),))
        number = self._reached(own)
        core = self.chip.core_chips[number]
        quarter = core.state_buffer.bytes_per_partition // 2
        start = quarter + -(-self._used[number] // 4) * 4
        there = self._lanes(number)
        each = lanes * elements
        fitting = [n for n in range(1, there + 1) if each % n == 0]
        over = rng.choice(fitting)
        count = each // over
        if start + count * size > core.state_buffer.bytes_per_partition:
            return "", None
        self._used[number] += -(-count * size // 4) * 4
        first = rng.randint(0, there - over)
        return f"core{number}", Access(Buffer.STATE, dtype, first, over, start, ((1, count),))

    # -- posts, waits and processors --------------------------------------------------------------

    def _linked(self) -> list[Section]:
        """Return the sections with posts and waits between cores, and those of processors."""
        rng = self.rng
        shared = [
            _Shared(section, draft.semaphores + n)
            for section, draft in enumerate(self._drafts)
            for n in range(rng.randint(0, 2))
        ]
        counts = [draft.semaphores for draft in self._drafts]
        for one in shared:
            counts[one.section] = max(counts[one.section], one.number + 1)
        several = {d.at for d in self._drafts if sum(e.at == d.at for e in self._drafts) > 1}
        order = [s for s, draft in enumerate(self._drafts) for _ in draft.instructions]
        rng.shuffle(order)
        places = [0] * len(self._drafts)
        for section in order:
            draft, place = self._drafts[section], places[section]
            places[section] += 1
            linked = self._link(draft.instructions[place], section, shared, several)
            draft.instructions[place] = linked
        sections = []
        for section, draft in enumerate(self._drafts):
            names = tuple(f"s{n}" for n in range(counts[section]))
            name = f"p{section}"
            module = Module(Program(name, tuple(draft.instructions), names))
            sections.append(Section(draft.at, module))
        return sections + self._commands(sections)

    def _link(
        self, instruction: Instruction, section: int, shared: list[_Shared], several: set[str]
    ) -> Instruction:
        rng, at = self.rng, self._drafts[section].at
        waits, posts = instruction.waits, instruction.posts
        mine = [one for one in shared if one.section == section and one.made]
        chance = 0.1 if self.chip.processors else 0.3
        if mine and rng.random() < chance:
            one = rng.choice(mine)
            value = one.made - min(int(rng.expovariate(0.5)), one.made - 1)
            waits = (*waits, Wait(one.number, value))
        if shared and rng.random() < 0.5:
            one = rng.choice(shared)
            there = self._drafts[one.section].at
            on = (
                rng.choice(["done", "row", "partition"])
                if isinstance(instruction, MatMul)
                else "done"
            )
            if one.section == section:
                posts = (*posts, Post(one.number, on))
            elif there not in several and there != at and self._talks:
                posts = (*posts, RemotePost(one.number, on, at=there))
            else:
                return replace(instruction, waits=waits)
            chip = self.chip.core_chips[self._drafts[section].core]
            one.made += _times(instruction, on, chip)
        return replace(instruction, waits=waits, posts=posts)

    def _commands(self, sections: list[Section]) -> list[Section]:
        """Return the programs of processors: each section is started once, by one of them."""
        rng, chip = self.rng, self.chip
        many = len(chip.processor_specs)
        if not many:
            return []
        commands: list[list[Instruction]] = [[] for _ in range(many)]
        posted = [0] * many
        for section in rng.sample(sections, len(sections)):
            number = rng.randrange(many)
            if not section.module.program.instructions:
                continue
            if chip.code == "dram":
                size = code_bytes(section.module.program)
                source = Access(Buffer.DRAM, "u8", 0, 1, 4 * rng.randint(0, 9), ((1, size),))
                target = Access(Buffer.DRAM, "u8", 0, 1, 0, ((1, size),))
                spec = chip.processor_specs[number]
                assert spec.dma is not None
                queue = rng.randrange(spec.dma.queues)
                commands[number].append(
                    DmaMove(
                        dma_queue=queue,
                        source=source,
                        target=target,
                        target_at=f"{section.at}.code",
                    )
                )
            commands[number].append(Command(word="start", at=section.at, program=section.name))
        made = RandomProgram(rng, chip.core_chips[0])
        for number in range(many):
            made.dram_used = (1 + 2 * chip.core_count + number) * DRAM_OF_CORE
            self._further(number, commands[number], made, posted)
        return [
            Section(f"processor{number}", Module(Program(f"q{number}", tuple(each), ("s0", "s1"))))
            for number, each in enumerate(commands)
        ]

    def _further(
        self, number: int, commands: list[Instruction], made: RandomProgram, posted: list[int]
    ) -> None:
        """Put copies, posts, waits for own copies, doorbells and a stop among the commands."""
        rng, spec = self.rng, self.chip.processor_specs[number]
        others = [n for n in range(len(posted)) if n != number]
        for _ in range(rng.randint(0, 5)):
            at = rng.randint(0, len(commands))
            kind = rng.choice(["copy", "copy", "notify", "ring", "post"])
            if kind == "copy" and spec.dma is not None:
                queue = rng.randrange(spec.dma.queues)
                move = self.move(f"processor{number}", queue, made)
                if move is None:
                    continue
                move = replace(move, posts=(Post(0),))
                commands.insert(at, move)
                posted[number] += 1
                before = sum(Post(0) in each.posts for each in commands[: at + 1])
                if rng.random() < 0.5:
                    place = rng.randint(at + 1, len(commands))
                    value = rng.randint(1, before)
                    commands.insert(place, Command(word="wait", waits=(Wait(0, value),)))
            elif kind == "ring" and others:
                other = f"processor{rng.choice(others)}"
                ring = Command(word="ring", posts=(RemotePost(1, "done", at=other),))
                commands.insert(at, ring)
            elif kind == "post":
                commands.insert(at, Command(word="post", posts=(Post(1),)))
            else:
                commands.insert(at, Command(word="notify"))
        if rng.random() < 0.5:
            commands.append(Command(word="stop"))


def _bounded(made: RandomProgram, length: int, stop: int) -> tuple[Program, list[Image]]:
    """Return a program whose results in the state buffer lie below a byte."""
    found = made._state

    def state(dtype: str, partition: int, partitions: int, elements: int) -> Access | None:
        access = found(dtype, partition, partitions, elements)
        return None if access is None or access.span.stop > stop else access

    made._state = state  # type: ignore[method-assign]
    return made.build(length)


def _times(instruction: Instruction, on: str, chip: Chip) -> int:
    if isinstance(instruction, DmaCopy):
        return chip.dma.posts_per_copy
    if on == "done" or not isinstance(instruction, MatMul):
        return 1
    return instruction.vectors if on == "row" else instruction.result.partitions
