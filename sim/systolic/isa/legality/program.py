"""Is a Program legal on a chip? Static rules of each instruction; not timing, not races.

Runs after the compiler and again before a machine starts. Errors name instruction and rule.
"""

from __future__ import annotations

from systolic.errors import ProgramError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa.access import Access, Buffer
from systolic.isa.instruction import DmaCopy, Instruction, LoadWeights, MatMul, OnEngine
from systolic.isa.legality.access import at_most, check_access, need
from systolic.isa.legality.engines import check_on_engine
from systolic.isa.program import Program


def check_program(program: Program, chip: Chip) -> None:
    """Raise ProgramError for the first instruction that the chip cannot execute."""
    loaded: LoadWeights | None = None
    for index, instruction in enumerate(program.instructions):
        try:
            _check_semaphores(instruction, len(program.semaphores))
            _check_instruction(instruction, chip)
            if isinstance(instruction, LoadWeights):
                loaded = instruction
            elif isinstance(instruction, MatMul):
                _check_weights(instruction, loaded)
        except ProgramError as error:
            kind = type(instruction).__name__
            raise ProgramError(f"{program.name}: instruction {index} ({kind}): {error}") from None


def _check_semaphores(instruction: Instruction, count: int) -> None:
    used = [wait.semaphore for wait in instruction.waits]
    used += [post.semaphore for post in instruction.posts]
    for semaphore in used:
        if not 0 <= semaphore < count:
            raise ProgramError(f"semaphore {semaphore} does not exist (there are {count})")
    for post in instruction.posts:
        if post.on != "done" and not isinstance(instruction, MatMul):
            raise ProgramError(f'only a MatMul can post on "{post.on}"')


def _check_instruction(instruction: Instruction, chip: Chip) -> None:
    match instruction:
        case LoadWeights():
            _check_load(instruction, chip)
        case MatMul():
            _check_matmul(instruction, chip)
        case OnEngine():
            check_on_engine(instruction, chip)
        case DmaCopy():
            _check_dma(instruction, chip)


def _check_load(load: LoadWeights, chip: Chip) -> None:
    weights = load.weights
    check_access("weights", weights, chip)
    _check_operand("weights", weights, chip)
    at_most(
        "weights: elements per partition (N)", weights.elements, "array columns", chip.pe_array.cols
    )
    if chip.pe_array.weight_path == "top":
        low, high = weights.span
        bank = chip.state_buffer.bank_bytes
        if low // bank != (high - 1) // bank:
            raise ProgramError("weights: on the top path a row must lie in one bank")


def _check_matmul(matmul: MatMul, chip: Chip) -> None:
    moving, result = matmul.moving, matmul.result
    check_access("moving", moving, chip)
    _check_operand("moving", moving, chip)
    check_access("result", result, chip)
    need("result", result, result.buffer is Buffer.RESULT, "in the result buffer")
    accumulator = data_type(moving.dtype).accumulator
    if result.dtype != accumulator:
        raise ProgramError(
            f"result: {moving.dtype} operands accumulate in {accumulator}, found {result.dtype}"
        )
    if result.partition != 0:
        raise ProgramError(f"result: must begin at partition 0, found {result.partition}")
    if moving.elements != result.elements:
        raise ProgramError(
            f"moving has {moving.elements} vectors, but result has {result.elements} rows"
        )
    low, high = result.span
    bank = chip.result_buffer.bank_bytes
    if low // bank != (high - 1) // bank:
        raise ProgramError(
            f"result: rows must lie in one bank of {bank} bytes, found bytes {low} to {high}"
        )


def _check_weights(matmul: MatMul, loaded: LoadWeights | None) -> None:
    if loaded is None:
        raise ProgramError("no LoadWeights before it")
    weights, moving = loaded.weights, matmul.moving
    if moving.partitions > weights.partitions:
        raise ProgramError(
            f"moving has {moving.partitions} rows (K), but only {weights.partitions} are loaded"
        )
    if matmul.result.partitions > weights.elements:
        raise ProgramError(
            f"result has {matmul.result.partitions} columns (N), "
            f"but only {weights.elements} are loaded"
        )
    mine, theirs = data_type(moving.dtype), data_type(weights.dtype)
    if mine.accumulator != theirs.accumulator or (
        "f32" in {mine.name, theirs.name} and mine != theirs
    ):
        raise ProgramError(f"moving {mine.name} cannot be multiplied with weights {theirs.name}")


def _check_dma(copy: DmaCopy, chip: Chip) -> None:
    if not 0 <= copy.dma_queue < chip.dma.queues:
        raise ProgramError(
            f"DMA queue {copy.dma_queue} does not exist (there are {chip.dma.queues})"
        )
    for name, access in (("source", copy.source), ("target", copy.target)):
        check_access(name, access, chip)
        need(name, access, access.buffer is not Buffer.RESULT, "in the state buffer or in DRAM")
    source, target = copy.source, copy.target
    if source.partitions * source.elements != target.partitions * target.elements:
        raise ProgramError(
            f"source has {source.partitions * source.elements} elements, "
            f"target {target.partitions * target.elements}"
        )
    if source.dtype != target.dtype:
        raise ProgramError(f"DMA does not cast: source {source.dtype}, target {target.dtype}")


def _check_operand(name: str, access: Access, chip: Chip) -> None:
    need(name, access, access.buffer is Buffer.STATE, "in the state buffer")
    if access.dtype not in chip.pe_array.cycles_per_vector:
        known = ", ".join(chip.pe_array.cycles_per_vector)
        raise ProgramError(f"{name}: the array of {chip.name} takes {known}, not {access.dtype}")
    if access.partition % chip.pe_array.rows:
        raise ProgramError(
            f"{name}: row r is fed by partitions r, r + R, r + 2R, ..., so the first must be a "
            f"multiple of R = {chip.pe_array.rows}, found {access.partition}"
        )
    at_most(f"{name}: partitions (K)", access.partitions, "array rows", chip.pe_array.rows)
