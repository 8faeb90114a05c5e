"""The same program for the machine and for the RTL, and the comparison of what both did.

What it is: a random chip around a given array with a random program for all its units, run by the
Python engines; and the array's part of it as the RTL takes it. Beside its queue the RTL is told
facts of its surroundings, cycle by cycle: from when on a semaphore is satisfied, and when a read
port of the state buffer is refused because some other client has it. It is told no cycle in which
to do anything. Were a fact wrong, or the machine's own reaction to it, both would part ways.
What it is not: a model. Operands come from the initial images, never from what an engine read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rtl_formulas import same_bits
from rtl_harness import NO_STRAPS, Load, Mul, RtlConfig, RtlProgram, RtlTrace, Straps, simulate
from rtl_programs import SMALL, random_floats

from support.chips import ideal_chip
from support.random_programs import RandomProgram, random_chip
from systolic.hw.spec import Chip
from systolic.hw.units import unit_of
from systolic.isa import Access, Buffer, LoadWeights, MatMul, Program, Wait, check_program
from systolic.machine import Image, Memory, Outcome
from systolic.machine import simulate as simulate_machine
from systolic.machine.register import run_register
from systolic.trace.grid import GridHistory, GridState
from systolic.trace.recorder import Recorder
from systolic.trace.records import Trace
from systolic.trace.words import KINDS

ARRAY = "pe_array"
PLANES = ("valid", "moving", "weight", "shadow", "sum")
STATE_BYTES, CONSTANT_BYTES = 8192, 4096
LARGE = 16


# ---- the same thing twice ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Case:
    """An array as the RTL names it, the chip around it, and a program with its memory contents."""

    config: RtlConfig
    chip: Chip
    program: Program
    images: Sequence[Image]


def chip_around(config: RtlConfig, rng: Random, *, clocks: bool = False) -> Chip:
    """Return a chip with that array whose every other number is random.

    Constants of 4 KiB lie in one to eight banks, so that weights and moving vectors now share a
    port and now do not. Around a large array DMA is quick: its slowness would only fill the disk.
    """
    tables = random_chip(rng, clocks=clocks).model_dump()
    side = max(config.rows, config.columns)
    tables["state_buffer"] |= {
        "partitions": side + rng.randint(0, 2),
        "bytes_per_partition": STATE_BYTES,
        "banks": rng.choice([1, 4, 8, 16]),
        "port_bytes": None,  # the RTL reads a row from the top in one cycle
    }
    if side >= LARGE:
        tables["dma"] |= {"bytes_per_cycle": 64, "descriptor_cycles": 0}
        tables["dram"] |= {"bytes_per_cycle": 256}
    # The RTL knows no passes, pass-through, tiles, no least number of vectors and no warm-up.
    none = {"passes": {}, "pass_through": {}, "min_vectors": 0, "warm_up_cycles": 0}
    tables["pe_array"] |= {**none, "tile_sizes": (), "double_row": {}, **array_table(config)}
    banks = rng.choice([1, 2, 4])
    tables["result_buffer"] = {
        "banks": banks,
        "bank_bytes": 4 * config.result_words // banks,
        "write_latency_cycles": config.psum_write_latency,
    }
    return Chip.model_validate(tables)


def quiet_chip(config: RtlConfig) -> Chip:
    """Return a chip with that array on which nothing is ever in the way."""
    result = {
        "banks": 1,
        "bank_bytes": 4 * config.result_words,
        "write_latency_cycles": config.psum_write_latency,
    }
    shape = config.rows, config.columns
    return ideal_chip(*shape, pe_array=array_table(config), result_buffer=result)


def array_table(config: RtlConfig) -> dict[str, Any]:
    """Return the chip file's table of the array."""
    return {
        "rows": config.rows,
        "cols": config.columns,
        "weight_path": config.weight_path,
        "weight_buffer": config.weight_buffer,
        "fast_load": config.fast,
        "hop": config.hop,
        "cell": config.cell,
        "entry_cycles": config.entry_cycles,
        "dispatch_cycles": 0,
        "fused_multiply_add": False,
        "cycles_per_vector": {operand_type(config): config.cycles_per_vector},
    }


def operand_type(config: RtlConfig) -> str:
    """Return the machine's name of the operands: the RTL's sums are int32 or float32."""
    return "f32" if config.number_format == "float32" else "s8"


@dataclass
class ArrayProgram(RandomProgram):
    """Random programs with operands of one type, which lie in as many banks as there are."""

    operand: str = "f32"
    state_used: int = CONSTANT_BYTES

    def _constants(self) -> None:
        rng = np.random.default_rng(self.rng.randrange(1 << 30))
        partitions = self.chip.state_buffer.partitions
        if self.operand == "f32":
            wild = float(rng.choice([0, 0.01, 0.2]))
            values = random_floats(rng, (partitions, CONSTANT_BYTES // 4), wild)
        else:
            values = rng.integers(-128, 128, (partitions, CONSTANT_BYTES), dtype=np.int8)
        self._image(Buffer.STATE, self.operand, 0, values)

    def _constant(self, dtype: str, partitions: int, elements: int) -> Access:
        size = 4 if self.operand == "f32" else 1
        room = CONSTANT_BYTES // size
        step = self.rng.choice([1, 1, 1, 2, -1, 5])
        span = abs(step) * (elements - 1)
        first = self.rng.randint(0, room - span - 1) + (span if step < 0 else 0)
        return Access(Buffer.STATE, self.operand, 0, partitions, first * size, ((step, elements),))


def random_case(
    config: RtlConfig, seed: int, *, length: int = 25, clocks: bool | None = None
) -> Case:
    """Return a random chip around that array and a random program for all its units.

    Programs without a multiply are drawn again.
    """
    rng = Random(seed)
    config = replace(config, **SMALL)
    chip = chip_around(config, rng, clocks=seed % 3 == 0 if clocks is None else clocks)
    program, images = Program("none", ()), []
    while not any(isinstance(i, MatMul) for i in program.instructions):
        program, images = ArrayProgram(rng, chip, operand=operand_type(config)).build(length)
    return Case(config=config, chip=chip, program=program, images=images)


# ---- the machine's run ---------------------------------------------------------------------------


@dataclass(frozen=True)
class SteppedNode:
    """A run of the register engine, and its planes at the end of every cycle of the array."""

    outcome: Outcome
    planes: dict[str, NDArray[Any]]


def run_event(case: Case) -> Outcome:
    """Run the event engine, everything recorded."""
    return simulate_machine(case.chip, case.program, case.images, kinds=KINDS, grid=True)


def run_stepped(case: Case) -> SteppedNode:
    """Run the register engine, everything recorded, and look at the grid in every cycle."""
    check_program(case.program, case.chip)
    memory = Memory(case.chip, case.program, case.images)
    recorder = Recorder(case.chip.units, frozenset(KINDS), True)
    states: list[GridState] = []

    def look(cycle: int, state: GridState) -> None:
        assert cycle == len(states), f"the observer saw cycle {cycle} after {len(states)} cycles"
        states.append(state)

    trace = run_register(case.chip, case.program, memory, recorder, observer=look)
    return SteppedNode(Outcome(trace, memory), planes_of(states))


def planes_of(states: Sequence[GridState]) -> dict[str, NDArray[Any]]:
    """Return each plane of these cycles, stacked."""
    return {name: np.stack([getattr(state, name) for state in states]) for name in PLANES}


def history_planes(history: GridHistory, cycles: int) -> dict[str, NDArray[Any]]:
    """Return the planes that a history draws of the first `cycles` cycles, one by one."""
    return planes_of([history.at(cycle) for cycle in range(cycles)])


# ---- the RTL's run -------------------------------------------------------------------------------


def rtl_program(case: Case, trace: Trace) -> RtlProgram:
    """Return the array's queue, its operands, and what its surroundings were in that run."""
    memory = Memory(case.chip, case.program, case.images)
    places: dict[Access, int] = {}
    blocks: list[NDArray[Any]] = []
    late = Lateness(case, trace)
    queue: list[Load | Mul] = []
    for instruction in array_instructions(case.program):
        access = instruction.weights if isinstance(instruction, LoadWeights) else instruction.moving
        if access not in places:
            places[access] = sum(block.shape[1] for block in blocks)
            blocks.append(operands(case.config, memory, access))
        queue.append(rtl_instruction(instruction, places[access], late.cycle(instruction.waits)))
    moving, weights = refusals(case, trace)
    state = np.concatenate([np.zeros((case.config.rows, 0), blocks[0].dtype), *blocks], axis=1)
    return RtlProgram(
        instructions=tuple(queue), state=state, moving_refused=moving, weight_refused=weights
    )


def array_indices(program: Program) -> list[int]:
    """Return the numbers of the instructions in the array's queue."""
    return program.queues().get(ARRAY, [])


def array_instructions(program: Program) -> list[LoadWeights | MatMul]:
    """Return the instructions in the array's queue."""
    found = [program.instructions[index] for index in array_indices(program)]
    return [i for i in found if isinstance(i, LoadWeights | MatMul)]


def operands(config: RtlConfig, memory: Memory, access: Access) -> NDArray[Any]:
    """Return [rows, elements]: the words of an access side by side, 0 where it has no partition."""
    words = np.zeros((config.rows, access.elements), config.operand_dtype)
    words[: access.partitions] = memory.read(access)
    return words


def rtl_instruction(instruction: LoadWeights | MatMul, address: int, not_before: int) -> Load | Mul:
    """Return an instruction whose operands lie at that word of the RTL's state buffer."""
    if isinstance(instruction, LoadWeights):
        weights = instruction.weights
        return Load(
            rows=weights.partitions,
            columns=weights.elements,
            address=address,
            not_before=not_before,
        )
    result = instruction.result
    assert result.pattern == ((1, result.elements),), "the RTL writes consecutive words"
    return Mul(
        rows=instruction.moving.partitions,
        columns=result.partitions,
        vectors=result.elements,
        moving_address=address,
        result_address=result.first_element,
        accumulate=instruction.accumulate,
        not_before=not_before,
    )


class Lateness:
    """From which cycle of the array on waits are satisfied, given the posts of a run."""

    def __init__(self, case: Case, trace: Trace) -> None:
        self._period = trace.periods[ARRAY]
        visible: defaultdict[int, list[int]] = defaultdict(list)
        for event in trace.semaphores:
            if event.kind == "post":
                delay = case.chip.post_cycles(unit_of(event.unit)) * trace.periods[event.unit]
                visible[event.semaphore].append(event.tick + delay)
        self._visible = {semaphore: sorted(ticks) for semaphore, ticks in visible.items()}

    def cycle(self, waits: Sequence[Wait]) -> int:
        """Return the first cycle in which as many posts as each wait asks for are visible."""
        ticks = [self._visible[w.semaphore][w.value - 1] for w in waits if w.value > 0]
        return -(-max(ticks, default=0) // self._period)


def refusals(case: Case, trace: Trace) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return, per cycle, whether moving vectors and weights were refused a port."""
    period = trace.periods[ARRAY]
    refused = np.zeros((2, -(-trace.ticks // period)), bool)
    for stall in trace.stalls:
        if stall.unit == ARRAY:
            is_load = isinstance(case.program.instructions[stall.instruction], LoadWeights)
            first = stall.tick // period
            refused[int(is_load), first : first + stall.cycles] = True
    return refused[0], refused[1]


def run_rtl(case: Case, trace: Trace, tool: str, straps: Straps = NO_STRAPS) -> RtlTrace:
    """Run the RTL in the surroundings of that run, until run and grid have come to rest."""
    cycles = max(trace.cycles(ARRAY), trace.grid.interval().stop) + 2
    program = rtl_program(case, trace)
    return simulate(case.config, program, tool, straps=straps, cycles=cycles)  # type: ignore[arg-type]


# ---- the comparison ------------------------------------------------------------------------------


def same_records(case: Case, trace: Trace, rtl: RtlTrace) -> None:
    """Every start, weight read, injection and result-buffer write is the RTL's, bits included."""
    indices = array_indices(case.program)
    place = {index: position for position, index in enumerate(indices)}
    period = trace.periods[ARRAY]
    started = {t.instruction: t.start // period for t in trace.times}
    same_bits(np.array([started[i] for i in indices], np.int64), rtl.starts, "starts")

    loads = [(place[p.instruction], p.reads) for p in trace.grid.loads]
    muls = [(place[p.instruction], p.injections) for p in trace.grid.matmuls]
    same_bits(accesses(loads), rtl.reads, "reads")
    same_bits(accesses(muls), rtl.injections, "injections")

    rows = trace.words.of("psum_write").rows
    rows = rows[np.lexsort((rows["partition"], rows["tick"]))]
    columns = (rows["tick"] // period, rows["partition"], rows["address"])
    same_bits(np.stack(columns, axis=1).astype(np.int64), rtl.writes, "writes")
    values = rows["bits"].astype(np.uint32).view(case.config.sum_dtype)
    same_bits(values, rtl.write_values, "write_values")


def accesses(passes: Sequence[tuple[int, NDArray[np.int64]]]) -> NDArray[np.int64]:
    """Return rows (cycle, instruction, number of the access), in order of time."""
    rows = [
        (int(cycle), index, number)
        for index, cycles in passes
        for number, cycle in enumerate(cycles)
    ]
    return np.array(sorted(rows), np.int64).reshape(-1, 3)


def same_planes(planes: dict[str, NDArray[Any]], rtl: RtlTrace, whose: str) -> None:
    """Every register of every PE, in every cycle there is a plane of, is the RTL's."""
    for name in PLANES:
        mine, theirs = planes[name], getattr(rtl, name)
        same_bits(mine, theirs[: len(mine)], f"{whose} {name}")
