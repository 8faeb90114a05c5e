"""The order that holds without semaphores: exactly the guarantees of the timing model.

They follow from docs/timing_model.md, for any refused ports and any ratio of clocks:

1. Starts. A queue starts its instructions in order (section 3).
2. DMA. A queue starts a copy after the last byte of the one before (section 6).
3. Engines. An instruction starts after the last read of every earlier instruction of its engine;
   with `independent_lanes`, of every earlier instruction that uses one of its lanes (section 4).
   An instruction writes results after it starts, so its writes never overtake the reads of an
   earlier instruction. Nothing is guaranteed of an earlier instruction's *writes*: they come
   `latency_cycles` after its reads, and later if a port is refused.
4. Loads. An instruction behind a LoadWeights in the array's queue starts after the last read of
   the load (section 2).
5. Vectors. A MatMul starts after the last vector of the MatMul before it has been injected (section
   2): operands have been read. A load may start while vectors are still being injected.
6. Sums. PSUM word (row m, partition c) is written, and with accumulate read, a fixed distance
   after the injection of vector m, the same for all MatMuls but for c. So MatMuls that share a word
   act on it in the order of the queue.
7. Posts of MatMuls. By 5 and 6 rows are posted in order, and partitions are posted in order. The
   "done" of a later MatMul is posted no earlier than of an earlier one, with an exception: the
   later MatMul uses fewer columns, and the difference is more than the vectors in between take.
   `window` gives the cycles.
8. Two writes of one engine to a word: see `systolic.isa.lint.overtaking`.
9. Tiles. In a program that has tiles of the array 4 and 5 hold between instructions whose tiles
   have a PE in common, 5 also between multiplies with a column and a bank of results in common
   (section 2). Two that share a word share both, so 6 holds as it stands. Nothing is guaranteed of
   the order in which the array's posts are made.

Instruction fetch, dispatch and least intervals (section 3) only make starts later, and leave the
starts of a queue in order: nothing here relies on how late.

Everything else is assumed to be possible. This module holds 1 to 7 and 9 as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from systolic.array_distances import cycles_to
from systolic.hw.spec import Chip
from systolic.hw.units import QueueKind, kind_of
from systolic.isa.array_tile import ArrayTile
from systolic.isa.effects import lanes
from systolic.isa.instruction import LoadWeights, MatMul, OnEngine, Post
from systolic.isa.program import Program
from systolic.isa.streaming import Streaming, streaming
from systolic.isa.tiling import array_tile

NEVER = (1 << 31) - 1
"""A position in a queue that no instruction has."""
ANY_TIME = 1 << 62


@dataclass
class Structure:
    """The queues of a program, and the order that they imply.

    queue, position: the queue of each instruction and its place there.
    after_reads: the first position in the instruction's own queue that starts after its operands
    are read; after_done: the first that starts after it is done. elapsed: for the array's
    instructions, the vector cycles of all MatMuls before them. has_tiles: some have a tile.
    queue_of, position_of, after_reads_of: the same as lists, for the passes look one by one.
    """

    program: Program
    chip: Chip
    names: tuple[str, ...]
    kinds: tuple[QueueKind, ...]
    members: tuple[tuple[int, ...], ...]
    queue: npt.NDArray[np.int32]
    position: npt.NDArray[np.int32]
    after_reads: npt.NDArray[np.int32]
    after_done: npt.NDArray[np.int32]
    elapsed: list[int]
    has_tiles: bool = False
    queue_of: list[int] = field(default_factory=list)
    position_of: list[int] = field(default_factory=list)
    after_reads_of: list[int] = field(default_factory=list)
    _streaming: dict[tuple[type, str], Streaming] = field(default_factory=dict)
    _right: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program, chip: Chip) -> Structure:
        """Return the structure of a legal program."""
        queues = program.queues()
        count = len(program.instructions)
        made = cls(
            program=program,
            chip=chip,
            names=tuple(queues),
            kinds=tuple(kind_of(name) for name in queues),
            members=tuple(tuple(m) for m in queues.values()),
            queue=np.zeros(count, np.int32),
            position=np.zeros(count, np.int32),
            after_reads=np.full(count, NEVER, np.int32),
            after_done=np.full(count, NEVER, np.int32),
            elapsed=[0] * count,
            has_tiles=any(
                isinstance(each, LoadWeights | MatMul) and each.tile is not None
                for each in program.instructions
            ),
        )
        for number, (kind, members) in enumerate(zip(made.kinds, made.members, strict=True)):
            made.queue[list(members)] = number
            made.position[list(members)] = np.arange(len(members))
            _FILL[kind](made, members)
        made.queue_of, made.position_of = made.queue.tolist(), made.position.tolist()
        made.after_reads_of = made.after_reads.tolist()
        return made

    def right(self, column: int) -> int:
        """Return the cycles a vector takes to reach a column."""
        found = self._right.get(column)
        if found is None:
            array = self.chip.pe_array
            found = self._right[column] = cycles_to(column, array.hop[1], array.cell[1])
        return found

    def streaming(self, multiply: MatMul) -> Streaming:
        """Return how the array streams the vectors of a multiply: few kinds are in a program."""
        key = type(multiply), multiply.moving.dtype
        found = self._streaming.get(key)
        if found is None:
            found = self._streaming[key] = streaming(multiply, self.chip.pe_array)
        return found

    def window(self, index: int, post: Post) -> tuple[int, int]:
        """Return (low, high) of the posts an instruction makes by one `post`.

        Two posts A and B of one queue compare by them. If A's instruction is not the later one, and
        high of A is at most low of B, then A's last post is visible no later than B's first. For
        MatMuls the numbers are the cycles of the posts if vectors followed each other as closely as
        they can. In reality later vectors are delayed at least as much as earlier ones.
        """
        instruction = self.program.instructions[index]
        kind = self.kinds[self.queue_of[index]]
        if kind == "dma":
            return self.position_of[index], self.position_of[index]
        if self.has_tiles and kind == "array":
            return -1, ANY_TIME
        if isinstance(instruction, LoadWeights):
            return -1, -1
        if not isinstance(instruction, MatMul):
            return -1, ANY_TIME
        spacing, passes = self.streaming(instruction)
        vectors = instruction.vectors
        first = self.elapsed[index] + (passes - 1) * vectors * spacing
        last = first + (vectors - 1) * spacing
        behind = self.right(instruction.result.partitions - 1)
        end = last + behind
        if post.on == "row":
            return first + behind, end
        return (last, end) if post.on == "partition" else (end, end)


def _fill_dma(structure: Structure, members: tuple[int, ...]) -> None:
    own, following = list(members), np.arange(1, len(members) + 1)
    structure.after_reads[own] = structure.after_done[own] = following


def _fill_array(structure: Structure, members: tuple[int, ...]) -> None:
    if structure.has_tiles:
        _fill_tiles(structure, members)
        return
    elapsed = 0
    instructions = structure.program.instructions
    next_position = np.arange(1, len(members) + 1, dtype=np.int32)
    is_multiply = np.array([isinstance(instructions[index], MatMul) for index in members])
    for index, multiplies in zip(members, is_multiply.tolist(), strict=True):
        structure.elapsed[index] = elapsed
        if multiplies:
            instruction = instructions[index]
            assert isinstance(instruction, MatMul)
            elapsed += structure.streaming(instruction).vector_cycles * instruction.vectors
    own = np.array(members)
    structure.after_done[own[~is_multiply]] = next_position[~is_multiply]
    structure.after_reads[own[~is_multiply]] = next_position[~is_multiply]
    of_multiplies = np.flatnonzero(is_multiply)
    structure.after_reads[own[of_multiplies[:-1]]] = of_multiplies[1:]


def _fill_tiles(structure: Structure, members: tuple[int, ...]) -> None:
    """Find behind each instruction the first that waits for its operands (9)."""
    chip, instructions = structure.chip, structure.program.instructions
    behind = dict[tuple[ArrayTile, int], int]()  # by tile and bank of results, -1 for a load's
    for position in range(len(members) - 1, -1, -1):
        index = members[position]
        instruction = instructions[index]
        assert isinstance(instruction, LoadWeights | MatMul)
        tile, bank = array_tile(instruction, chip.pe_array), -1
        if isinstance(instruction, MatMul):
            bank = instruction.result.span.first // chip.result_buffer.bank_bytes
        waits = [
            later
            for (other, its_bank), later in behind.items()
            if (other.meets(tile) and (bank < 0 or its_bank >= 0))
            or (0 <= bank == its_bank and other.columns.meets(tile.columns))
        ]
        structure.after_reads[index] = min(waits, default=NEVER)
        if bank < 0:
            structure.after_done[index] = structure.after_reads[index]
        behind[tile, bank] = position


def _fill_engine(structure: Structure, members: tuple[int, ...]) -> None:
    chip = structure.chip
    first_instruction = structure.program.instructions[members[0]]
    assert isinstance(first_instruction, OnEngine)
    if not chip.engine(first_instruction.engine).independent_lanes:
        structure.after_reads[list(members)] = np.arange(1, len(members) + 1)
        return
    size = max(chip.state_buffer.partitions, chip.pe_array.cols)
    free = np.full(size, NEVER, np.int32)
    for position in range(len(members) - 1, -1, -1):
        first, stop = lanes(structure.program.instructions[members[position]])
        structure.after_reads[members[position]] = free[first:stop].min()
        free[first:stop] = position


_FILL = {"dma": _fill_dma, "array": _fill_array, "engine": _fill_engine}
