"""Two cores that exchange tiles: the same program for the machine and for the RTL, and the events.

What it is: a chip of two 4 x 4 cores on a ring, of whose two links each has one pool, with random
numbers; random programs in which each core multiplies, sends tiles and sums to the other, and
multiplies by what it was sent; and the files and events of `hdl/exchange.v`.
What it is not: a model. The RTL gets no cycle and no fact of the machine's run.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from rtl_build import Tool, build, checked
from rtl_harness import hex_words

from systolic.hw.spec import MultiCoreChip
from systolic.isa import (
    Access,
    Buffer,
    ChipModule,
    Instruction,
    LoadWeights,
    MatMul,
    Module,
    Post,
    Program,
    Section,
    Wait,
)
from systolic.isa.instruction import DmaMove, RemotePost
from systolic.machine import Image

SIDE, QUEUES_OF_CORE, BANKS, BANK_WORDS = 4, 2, 4, 16
STATE_WORDS = BANKS * BANK_WORDS
WEIGHTS, MOVING, RECEIVED, SENT = (bank * BANK_WORDS for bank in range(BANKS))
"""The first word of each bank: weights of its own, vectors, tiles from the other core, and sums."""
SOURCES = ("exchange.v", "exchange_core.v", "pe_array.v", "sequencer.v")
STRAPS = ("early_post", "short_share", "remainder")


@dataclass(frozen=True)
class Numbers:
    """What the chip file says of DMA, of the link and of posts; cycles and bytes."""

    pool: int
    rate: int
    latency: int
    descriptor: int
    hop: int
    post: int
    hand: int

    @classmethod
    def draw(cls, rng: Random) -> Numbers:
        """Return random numbers. The RTL sees a sum a cycle later, so `hand` is 2 or more."""
        return cls(
            pool=rng.choice([4, 5, 7, 8, 16]),
            rate=rng.choice([1, 3, 4, 8, 16]),
            latency=rng.choice([0, 1, 4]),
            descriptor=rng.choice([0, 0, 1, 3]),
            hop=rng.choice([0, 1, 3]),
            post=rng.choice([0, 1, 4]),
            hand=rng.choice([2, 2, 3]),
        )


def chip_of(numbers: Numbers) -> MultiCoreChip:
    """Return two equal cores on a ring."""
    core = {
        "name": "4 x 4",
        "clock": {"core": 1000},
        "semaphore_cycles": numbers.hand,
        "state_buffer": {
            "partitions": SIDE,
            "bytes_per_partition": 4 * STATE_WORDS,
            "banks": BANKS,
        },
        "pe_array": {"rows": SIDE, "cols": SIDE, "cycles_per_vector": {"f32": 1}},
        "result_buffer": {"banks": 1, "bank_bytes": 4 * STATE_WORDS, "dma_readable": True},
        "dma": {
            "queues": QUEUES_OF_CORE,
            "bytes_per_cycle": numbers.rate,
            "latency_cycles": numbers.latency,
            "descriptor_cycles": numbers.descriptor,
        },
        "dram": {"size_bytes": 4096, "bytes_per_cycle": 64},
    }
    ring = {
        "kind": "ring",
        "bytes_per_cycle": numbers.pool,
        "hop_cycles": numbers.hop,
        "post_cycles": numbers.post,
    }
    return MultiCoreChip.model_validate(
        {
            "name": "two cores",
            "cores": [{"count": 2, "core": core}],
            "controllers": [{"dram": core["dram"]}],
            "interconnect": ring,
        }
    )


@dataclass
class Exchange:
    """A program of both cores in the making: instructions, and semaphores so far."""

    rng: Random
    cores: tuple[list[Instruction], list[Instruction]] = field(default_factory=lambda: ([], []))
    used: list[int] = field(default_factory=lambda: [0, 0])
    sums: list[int] = field(default_factory=lambda: [0, 0])

    def semaphore(self, core: int) -> int:
        """Return a new semaphore of a core."""
        self.used[core] += 1
        return self.used[core] - 1

    def multiply(self, core: int, weights: int, waits: tuple[Wait, ...]) -> tuple[int, int]:
        """Load a tile and multiply vectors; return the first word of the sums, and the post."""
        first, vectors = self.sums[core], self.rng.randint(1, 4)
        self.sums[core] += vectors
        done = self.semaphore(core)
        load = LoadWeights(weights=words(Buffer.STATE, weights, SIDE), waits=waits)
        moving = words(Buffer.STATE, MOVING + self.rng.randint(0, BANK_WORDS - vectors), vectors)
        result = words(Buffer.RESULT, first, vectors)
        self.cores[core].append(load)
        self.cores[core].append(MatMul(moving=moving, result=result, posts=(Post(done),)))
        return first, done

    def send(self, core: int, feeder: int, source: Access, target: int, wait: Wait | None) -> int:
        """Copy words of a core to the other one, which has a post at the end; return that post."""
        other = 1 - core
        there = self.semaphore(other)
        post: Post = Post(there) if feeder == other else RemotePost(there, "done", at=name(other))
        self.cores[feeder].append(
            DmaMove(
                dma_queue=self.rng.randrange(QUEUES_OF_CORE),
                source=source,
                target=words(Buffer.STATE, target, source.elements),
                source_at=name(core),
                target_at=name(other),
                waits=() if wait is None else (wait,),
                posts=(post,),
            )
        )
        return there


def words(buffer: Buffer, first: int, count: int) -> Access:
    """Return words of all four partitions."""
    return Access(buffer, "f32", 0, SIDE, 4 * first, ((1, count),))


def name(core: int) -> str:
    """Return the name of a core."""
    return f"core{core}"


def exchange(rng: Random) -> ChipModule:
    """Return a program in which each core works, sends, and works on what it was sent."""
    made = Exchange(rng)
    sent: list[tuple[int, Wait]] = []
    for core in range(2):
        first, done = made.multiply(core, WEIGHTS, ())
        count = made.sums[core] - first
        source = words(Buffer.RESULT, first, count)
        tile = words(Buffer.STATE, MOVING, SIDE)
        place = RECEIVED + SIDE * rng.randrange(2)
        made.send(core, core, source, SENT, Wait(done, 1))  # sums, which the core itself sends
        feeder = rng.randrange(2)
        sent.append((place, Wait(made.send(core, feeder, tile, place, None), 1)))
        for _ in range(rng.randint(0, 3)):  # more, to share the link
            words_more = rng.randint(1, 4)
            more = words(Buffer.STATE, MOVING + rng.randint(0, 8), words_more)
            made.send(core, rng.randrange(2), more, SENT + 4 + rng.randrange(3) * 4, None)
    for core, (place, wait) in enumerate(reversed(sent)):
        made.multiply(core, place, (wait,))
    sections = [
        Section(
            name(core),
            Module(Program(name(core), tuple(made.cores[core]), names(made.used[core]))),
        )
        for core in range(2)
    ]
    return ChipModule("exchange", tuple(sections))


def names(count: int) -> tuple[str, ...]:
    """Return names of semaphores."""
    return tuple(f"s{number}" for number in range(count))


def images(seed: int) -> dict[str, list[Image]]:
    """Return weights and vectors of both cores."""
    rng = np.random.default_rng(seed)
    whole = words(Buffer.STATE, 0, STATE_WORDS)
    return {
        name(core): [Image(whole, rng.standard_normal((SIDE, STATE_WORDS)).astype(np.float32))]
        for core in range(2)
    }


# ---- the RTL's run -------------------------------------------------------------------------------


def wait_word(waits: tuple[Wait, ...]) -> int:
    """Return a wait as `exchange_core.v` reads it."""
    return 0 if not waits else 256 * waits[0].value + waits[0].semaphore + 1


def array_words(program: Program) -> tuple[list[int], list[int]]:
    """Return the words of the queue of the array, and those of the posts of its multiplies."""
    queue: list[int] = []
    posts: list[int] = []
    for one in program.instructions:
        if isinstance(one, LoadWeights):
            at = one.weights.first_element
            queue += [1, SIDE, SIDE, 0, at, 0, 0, wait_word(one.waits)]
        elif isinstance(one, MatMul):
            extent = [SIDE, SIDE, one.vectors]
            at, to = one.moving.first_element, one.result.first_element
            queue += [2, *extent, at, to, 0, wait_word(one.waits)]
            posts += [one.vectors, one.posts[0].semaphore + 1 if one.posts else 0, 0]
    return queue, posts


def copy_words(core: int, copy: DmaMove) -> list[int]:
    """Return a copy as `exchange.v` reads it."""
    wait = [copy.waits[0].semaphore + 1, copy.waits[0].value] if copy.waits else [0, 0]
    (post,) = copy.posts
    posted = int(post.at[4:]) if isinstance(post, RemotePost) else core
    source, target = int(copy.source_at[4:]), int(copy.target_at[4:])
    ends = [source, int(copy.source.buffer is Buffer.RESULT), copy.source.first_element]
    ends += [target, copy.target.first_element, copy.source.elements, copy.source.partitions]
    queue = QUEUES_OF_CORE * core + copy.dma_queue
    return [queue, *wait, *ends, posted, post.semaphore + 1, 0, 0, 0, 0]


def run_rtl(
    module: ChipModule,
    contents: dict[str, list[Image]],
    numbers: Numbers,
    tool: Tool,
    strap: str = "",
) -> dict[str, Any]:
    """Run the RTL; return what `events_of` makes of its events."""
    with tempfile.TemporaryDirectory(prefix="systolic-rtl-exchange-") as folder_name:
        folder = Path(folder_name)
        command = build(folder, "exchange", SOURCES, {"STATE_WORDS": STATE_WORDS}, tool)
        arguments = _write(folder, module, contents)
        arguments |= {key: getattr(numbers, key) for key in Numbers.__dataclass_fields__}
        arguments |= {strap: 1} if strap else {}
        checked([*command, *(f"+{key}={value}" for key, value in arguments.items())], folder)
        lines = (folder / "events.txt").read_text().split()
    return events_of(np.array(lines, np.int64).reshape(-1, 6))


def _write(folder: Path, module: ChipModule, contents: dict[str, list[Image]]) -> dict[str, int]:
    copies: list[int] = []
    posts: list[int] = []
    found = {}
    for core, section in enumerate(module.sections):
        program = section.module.program
        queue, own = array_words(program)
        for place in range(0, len(own), 3):
            posts += [core, *own[place : place + 3]]
        for one in program.instructions:
            if isinstance(one, DmaMove):
                copies += copy_words(core, one)
        (folder / f"queue{core}.hex").write_text(hex_words(np.array(queue, np.uint32)))
        found[f"queue{core}"] = len(queue)
        values = contents[section.at][0].values.astype(np.float32)
        (folder / f"state{core}.hex").write_text(hex_words(values.reshape(-1).view(np.uint32)))
    for key, values in (("copies", copies), ("posts", posts)):
        (folder / f"{key}.hex").write_text(hex_words(np.array(values, np.uint32)))
        found[key] = len(values)
    return found


def events_of(lines: Any) -> dict[str, Any]:
    """Return starts, reads, injections and writes of each array, and the cycles of each copy."""
    ends = lines[lines[:, 0] == 9]
    if len(ends) != 1 or ends[0, 2] == 0:
        raise RuntimeError("the RTL did not finish its program")
    found: dict[str, Any] = {}
    for core in range(2):
        mine = lines[lines[:, 1] == core]
        for kind, what in enumerate(("starts", "reads", "injections", "writes"), 1):
            rows = mine[mine[:, 0] == kind, 2:]
            rows = rows[:, [1, 0]] if what == "starts" else rows
            found[f"core{core} {what}"] = sorted(map(tuple, rows.tolist()))
    for kind, what in ((5, "start"), (6, "first byte"), (7, "last byte")):
        rows = lines[lines[:, 0] == kind, 2:]
        found[f"copies, {what}"] = sorted((q, n, cycle) for cycle, q, n, _ in rows.tolist())
    return found


# ---- the machine's run ---------------------------------------------------------------------------


def told_by(outcome: Any) -> dict[str, Any]:
    """Return the same of a run of the machine, every word recorded and the schedules kept."""
    joint, trace = outcome.joint, outcome.trace
    numbers: dict[int, int] = {}
    found: dict[str, Any] = {f"copies, {w}": [] for w in ("start", "first byte", "last byte")}
    times = {each.instruction: each for each in trace.times}
    for launch_number, launch in enumerate(joint.launches):
        core = launch.section.place.number
        queues = joint.queues[launch_number]
        array = queues.get("pe_array", [])
        numbers |= {index: place for place, index in enumerate(array)}
        found[f"core{core} starts"] = [(numbers[i], times[i].start) for i in array]
        for queue in range(QUEUES_OF_CORE):
            rank = QUEUES_OF_CORE * core + queue
            for place, index in enumerate(queues.get(f"dma{queue}", [])):
                one = times[index]
                for what, cycle in (("start", one.start), ("first byte", one.first),
                                    ("last byte", one.done)):  # fmt: skip
                    found[f"copies, {what}"].append((rank, place, cycle))
    found |= _words(trace, numbers)
    return {key: sorted(rows) for key, rows in found.items()}


def _words(trace: Any, numbers: dict[int, int]) -> dict[str, Any]:
    """Return the weights read, the vectors injected and the sums written, from recorded words."""
    found: dict[str, Any] = {}
    for core in range(2):
        unit = trace.words.units.index(f"core{core}.pe_array")
        for what, kind in (("reads", "load"), ("injections", "inject")):
            rows = trace.words.of(kind).rows
            rows = rows[(rows["unit"] == unit) & (rows["partition"] == 0)]
            count: dict[int, int] = {}
            steps = []
            for row in np.sort(rows, order="tick"):
                index = int(row["instruction"])
                steps.append((int(row["tick"]), numbers[index], count.setdefault(index, 0), 0))
                count[index] += 1
            found[f"core{core} {what}"] = steps
        rows = trace.words.of("psum_write").rows
        rows = rows[rows["unit"] == unit]
        columns = rows["tick"], rows["partition"], rows["address"], rows["bits"]
        found[f"core{core} writes"] = list(zip(*(c.tolist() for c in columns), strict=True))
    return found
