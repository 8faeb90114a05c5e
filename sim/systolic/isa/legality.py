"""Is a Program legal on a chip? Static rules of each instruction; not timing, not races.

Runs after the compiler and again before a machine starts. Errors name instruction and rule. The
rules are listed in docs/instruction_set.md. Three parts: the program and its instructions, those
of the array and of DMA; the instructions of the engines; what every access obeys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from systolic.errors import ProgramError, perhaps, shortened
from systolic.hw.datatypes import DATA_TYPES, PSUM_WORD_BYTES, data_type
from systolic.hw.spec import Chip
from systolic.isa.access import MAX_PAIRS, Access, Buffer
from systolic.isa.accumulation_groups import OpenGroups
from systolic.isa.array_tile import ArrayTile
from systolic.isa.effects import (
    calculation,
    capability,
    few_per_lane,
    per_element_operands,
    reads_per_element,
    rhythm,
    target_of,
    window,
    writes,
)
from systolic.isa.engines import (
    able_engines,
    access_faults,
    calculates,
    functions_of,
    out_of_reach,
    too_many_results,
)
from systolic.isa.instruction import (
    UNCHANGED,
    BnAggr,
    DmaCopy,
    DmaTranspose,
    FindIndex8,
    Instruction,
    LoadDoubleRow,
    LoadTile,
    LoadWeights,
    MatchReplace8,
    MatMul,
    MatMulDoubleRow,
    MatMulTile,
    Max8,
    OnEngine,
    PassThrough,
    Requantise,
    ScalarTensorTensor,
    Scan,
    Shuffle,
    TensorScalar,
    TensorScalarReduce,
    TensorTensor,
    Transpose,
)
from systolic.isa.opcodes import BY_CLASS, Field, Rhythm, require_rows
from systolic.isa.program import Program
from systolic.isa.tiling import LoadedTiles, array_tile

MAX_ELEMENTS, MAX_DRAM_ELEMENTS = 1 << 24, 1 << 32
"""The most elements of an access, in a partition and in DRAM; repeated ones count again."""
MAX_STEP = 1 << 40
MAX_SEARCHED = 1 << 14
"""The most elements of a lane in which `find_index8` and `match_replace8` search (nki.isa)."""
INTEGERS_ONLY = (
    "and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic",
)  # fmt: skip
INT32 = range(-(1 << 31), 1 << 31)


def check_program(program: Program, chip: Chip) -> None:
    """Raise ProgramError for the first instruction that the chip cannot execute."""
    loaded, groups = LoadedTiles(chip.pe_array), OpenGroups(chip)
    for index, instruction in enumerate(program.instructions):
        try:
            _check_semaphores(instruction, len(program.semaphores))
            _check_instruction(instruction, chip)
            if isinstance(instruction, LoadWeights):
                loaded.note(instruction)
            elif isinstance(instruction, MatMul):
                _check_weights(instruction, loaded)
                groups.admit(instruction)
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
    if isinstance(instruction, OnEngine):
        _check_on_engine(instruction, chip)
    else:
        _RULES[type(instruction)](instruction, chip)
    for name, fault in access_faults(instruction, chip):
        raise ProgramError(f"{name}: {fault}")


def _check_load(load: LoadWeights, chip: Chip) -> None:
    weights, tile = load.weights, _checked_tile(load, chip)
    check_access("weights", weights, chip)
    _check_operand("weights", load.weights, tile, chip)
    _check_double_row("weights", load, weights, chip)
    at_most("weights: elements per partition (N)", load.columns, "array columns", tile.cols)
    if chip.pe_array.weight_path == "top":
        low, high = weights.span
        bank = chip.state_buffer.bank_bytes
        if low // bank != (high - 1) // bank:
            raise ProgramError("weights: on the top path a row must lie in one bank")


def _check_matmul(matmul: MatMul, chip: Chip) -> None:
    moving, result, tile = matmul.moving, matmul.result, _checked_tile(matmul, chip)
    check_access("moving", moving, chip)
    _check_operand("moving", moving, tile, chip)
    _check_double_row("moving", matmul, moving, chip)
    check_access("result", result, chip)
    need("result", result, result.buffer is Buffer.RESULT, "in the result buffer")
    if result.elements != matmul.vectors:
        raise ProgramError(
            f"result: needed a word in each partition for each of {matmul.vectors} vectors, "
            f"found {result.elements}"
        )
    if isinstance(matmul, PassThrough):
        _check_pass_through(matmul, chip)
    elif result.dtype != (accumulator := data_type(moving.dtype).accumulator):
        raise ProgramError(
            f"result: {moving.dtype} operands accumulate in {accumulator}, found {result.dtype}"
        )
    if result.partition != tile.col:
        raise ProgramError(f"result: must begin at partition {tile.col}, found {result.partition}")
    if matmul.tile is not None:
        at_most("result: partitions (N)", result.partitions, "columns of the tile", tile.cols)
    most = chip.pe_array.moving_max
    if most is not None and matmul.vectors > most:
        raise ProgramError(
            f"moving: a multiply takes at most {most} vectors (pe_array.moving_max), "
            f"found {matmul.vectors}"
        )
    low, high = result.span
    bank = chip.result_buffer.bank_bytes
    if low // bank != (high - 1) // bank:
        raise ProgramError(
            f"result: rows must lie in one bank of {bank} bytes, found bytes {low} to {high}"
        )


def _check_double_row(
    name: str, instruction: LoadWeights | MatMul, access: Access, chip: Chip
) -> None:
    """Hold what only double rows must be: of a type that the PEs take so, and pairs."""
    if instruction.rows_per_pe == 1:
        return
    if access.dtype not in (known := chip.pe_array.double_row):
        raise ProgramError(
            f"{name}: the array of {chip.name} takes two rows in a PE of "
            f"{', '.join(known) or 'no type'} (pe_array.double_row), not of {access.dtype}"
        )
    if access.elements % 2:
        raise ProgramError(
            f"{name}: needed two elements for each PE, an even number in each partition, "
            f"found {access.elements}"
        )


def _check_pass_through(through: PassThrough, chip: Chip) -> None:
    """Hold what only a PassThrough must be: of a type that passes, unchanged, and on its own."""
    dtype, known = through.moving.dtype, chip.pe_array.pass_through
    if dtype not in known:
        raise ProgramError(
            f"moving: through the array of {chip.name} {', '.join(known) or 'no type'} may pass "
            f"(pe_array.pass_through), not {dtype}"
        )
    if through.result.dtype != dtype:
        raise ProgramError(
            f"result: what passes through keeps its type, {dtype}, found {through.result.dtype}"
        )
    if through.accumulate:
        raise ProgramError("accumulate: what passes through is added to nothing")


def _checked_tile(instruction: LoadWeights | MatMul, chip: Chip) -> ArrayTile:
    """Return the tile an instruction has; refuse one that the chip's array is not cut into."""
    array = chip.pe_array
    if not isinstance(instruction, LoadTile | MatMulTile):
        return array_tile(instruction, array)
    size, position = instruction.tile_size, instruction.tile_position
    if size not in array.tile_sizes:
        known = ", ".join(f"{rows} x {cols}" for rows, cols in array.tile_sizes)
        found = " x ".join(str(side) for side in size)
        raise ProgramError(
            f"tile_size: the array of {chip.name} has tiles of {known or 'no size'} "
            f"(pe_array.tile_sizes), not of {found or 'nothing'}"
        )
    sides = zip(position, size, (array.rows, array.cols), strict=False)
    if len(position) != len(size) or any(
        first % side or not 0 <= first < whole for first, side, whole in sides
    ):
        raise ProgramError(
            f"tile_position: needed a row below {array.rows} that is a multiple of {size[0]} and a "
            f"column below {array.cols} that is a multiple of {size[1]}, "
            f"found {', '.join(str(place) for place in position) or 'nothing'}"
        )
    return instruction.tile


def _check_weights(matmul: MatMul, tiles: LoadedTiles) -> None:
    loaded = tiles.of(matmul)
    if loaded is None:
        other = tiles.lost_to(matmul)
        its = "" if matmul.tile is None else f" of its tile ({matmul.tile})"
        since = "" if other is None else f": a load of {other} has taken PEs of it since"
        raise ProgramError(f"no LoadWeights{its} before it{since}")
    weights, moving = loaded.weights, matmul.moving
    if moving.partitions > weights.partitions:
        raise ProgramError(
            f"moving has {moving.partitions} rows (K), but only {weights.partitions} are loaded"
        )
    if matmul.rows_per_pe != loaded.rows_per_pe:
        raise ProgramError(
            f"moving has {matmul.rows_per_pe} elements for a PE, but the weights before it were "
            f"loaded with {loaded.rows_per_pe}"
        )
    if matmul.result.partitions > loaded.columns:
        raise ProgramError(
            f"result has {matmul.result.partitions} columns (N), "
            f"but only {loaded.columns} are loaded"
        )
    mine, theirs = data_type(moving.dtype), data_type(weights.dtype)
    if isinstance(matmul, PassThrough) and mine != theirs:
        raise ProgramError(f"moving {mine.name} cannot pass weights {theirs.name} through")
    if mine.accumulator != theirs.accumulator or (
        "f32" in {mine.name, theirs.name} and mine != theirs
    ):
        raise ProgramError(f"moving {mine.name} cannot be multiplied with weights {theirs.name}")


def _check_dma(copy: DmaCopy, chip: Chip) -> None:
    if not 0 <= copy.dma_queue < chip.dma.queues:
        raise ProgramError(
            f"DMA queue {copy.dma_queue} does not exist (there are {chip.dma.queues})"
        )
    source, target = copy.source, copy.target
    for name, access in (("source", source), ("target", target)):
        check_access(name, access, chip)
        _check_words(name, access)
    need("target", target, target.buffer is not Buffer.RESULT, "in the state buffer or in DRAM")
    if source.buffer is Buffer.RESULT:
        _check_bypass(chip)
    if source.partitions * source.elements != target.partitions * target.elements:
        raise ProgramError(
            f"source has {source.partitions * source.elements} elements, "
            f"target {target.partitions * target.elements}"
        )
    if source.dtype != target.dtype:
        raise ProgramError(f"DMA does not cast: source {source.dtype}, target {target.dtype}")


def _check_dma_transpose(copy: DmaTranspose, chip: Chip) -> None:
    """Hold a transpose against what the chip's DMA turns, and against the shape of a matrix."""
    _check_dma(copy, chip)
    source, target = copy.source, copy.target
    turns = chip.dma.transposes
    if turns is None:
        raise ProgramError(f"DMA of {chip.name} does not transpose (dma.transposes)")
    need("target", target, target.buffer is Buffer.STATE, "in the state buffer")
    need("source", source, source.buffer is not Buffer.RESULT, "in the state buffer or in DRAM")
    if source.buffer is Buffer.STATE and turns.state_buffer_percent is None:
        raise ProgramError(
            f"source: DMA of {chip.name} transposes from DRAM alone "
            f"(dma.transposes.state_buffer_percent), found {source.buffer}"
        )
    if source.element_bytes not in turns.element_bytes:
        sizes = " or ".join(map(str, turns.element_bytes))
        raise ProgramError(
            f"source: DMA of {chip.name} transposes elements of {sizes} bytes "
            f"(dma.transposes.element_bytes), {source.dtype} has {source.element_bytes}"
        )
    _check_matrix(source, target, chip)


def _check_matrix(source: Access, target: Access, chip: Chip) -> None:
    """Hold the source of a transpose against its R rows of C elements side by side."""
    rows, cols = target.elements, target.partitions
    if source.buffer is Buffer.STATE:
        if (source.partitions, source.elements) != (rows, cols):
            raise ProgramError(
                f"source: the target has {cols} partitions of {rows} elements, so needed {rows} "
                f"partitions of {cols}, found {source.partitions} of {source.elements}"
            )
        low, high = source.span
        if low // chip.state_buffer.bank_bytes != (high - 1) // chip.state_buffer.bank_bytes:
            raise ProgramError(
                f"source: what is transposed on the chip must lie in one bank of "
                f"{chip.state_buffer.bank_bytes} bytes, found bytes {low} to {high}"
            )
    step, count = source.pattern[-1]
    if cols > 1 and (step != 1 or count % cols):
        raise ProgramError(
            f"source: the {cols} elements of a row, one for each partition of the target, must "
            f"lie side by side, found {count} with a step of {step}"
        )


def _check_bypass(chip: Chip) -> None:
    """Raise ProgramError unless DMA may read the result buffer."""
    if not chip.result_buffer.dma_readable:
        raise ProgramError(
            "source: DMA reads the result buffer only where result_buffer.dma_readable = true"
        )


def _check_operand(name: str, access: Access, tile: ArrayTile, chip: Chip) -> None:
    need(name, access, access.buffer is Buffer.STATE, "in the state buffer")
    if access.dtype not in chip.pe_array.cycles_per_vector:
        known = ", ".join(chip.pe_array.cycles_per_vector)
        raise ProgramError(f"{name}: the array of {chip.name} takes {known}, not {access.dtype}")
    if access.partition % chip.pe_array.rows != tile.row:
        behind = f"row {tile.row} of its tile behind a " if tile.row else ""
        raise ProgramError(
            f"{name}: row r is fed by partitions r, r + R, r + 2R, ..., so the first must be "
            f"{behind or 'a '}multiple of R = {chip.pe_array.rows}, found {access.partition}"
        )
    at_most(f"{name}: partitions (K)", access.partitions, "array rows", tile.rows)


_RULES: dict[type, Callable[[Any, Chip], None]] = {
    LoadWeights: _check_load,
    MatMul: _check_matmul,
    PassThrough: _check_matmul,
    LoadTile: _check_load,
    MatMulTile: _check_matmul,
    LoadDoubleRow: _check_load,
    MatMulDoubleRow: _check_matmul,
    DmaCopy: _check_dma,
    DmaTranspose: _check_dma_transpose,
}
require_rows("legality._RULES", _RULES, [c for c in BY_CLASS if not issubclass(c, OnEngine)])


# -- instructions of the engines ---------------------------------------------------------------


def _check_on_engine(instruction: OnEngine, chip: Chip) -> None:
    """Raise ProgramError if its engine cannot execute the instruction."""
    _check_engine(instruction, chip)
    for field in BY_CLASS[type(instruction)].fields:
        value = getattr(instruction, field.name)
        if isinstance(value, Access):
            check_access(field.name, value, chip)
            need(field.name, value, value.buffer is not Buffer.DRAM, "on chip")
            _check_port(field.name, value, chip)
        elif isinstance(value, int | float):
            _check_number(field.name, value)
    for access in writes(instruction):
        _check_words("target", access)
    _check_reach(instruction, chip)
    for field in BY_CLASS[type(instruction)].fields:
        _check_word(field, getattr(instruction, field.name))
    _check_shapes(instruction)
    if rule := _ENGINE_RULES.get(type(instruction)):
        rule(instruction)
    _check_per_lane(instruction)


def _check_port(name: str, access: Access, chip: Chip) -> None:
    port = chip.port_width_bytes
    if access.buffer is Buffer.STATE and access.element_bytes > port:
        raise ProgramError(
            f"{name}: an element of {access.dtype} has {access.element_bytes} bytes, "
            f"more than state_buffer.port_bytes ({port})"
        )


def _check_engine(instruction: OnEngine, chip: Chip) -> None:
    """Hold the engine against those of the chip that do what the instruction is."""
    found, word, engines = instruction.engine, capability(instruction), chip.lane_engines
    does = {name: engine for name, engine in engines.items() if word in engine.does}
    if found in does and calculates(instruction, does[found]):
        return
    able, what = able_engines(instruction, chip), calculation(instruction)
    if not does:
        done = "; ".join(f"{name} does {', '.join(e.does)}" for name, e in engines.items())
        raise ProgramError(f"engine: no engine of {chip.name} does {word} ({done})")
    if not able:
        done = "; ".join(
            f"{name} does {word} of {functions_of(e, word)}" for name, e in does.items()
        )
        raise ProgramError(f"engine: no engine of {chip.name} does {word} of {what} ({done})")
    why = perhaps(found, able)
    if found in does:
        why = f", which does {word} of {functions_of(does[found], word)}, not of {what}"
    elif found in engines:
        why = f", which does not do {word}"
    raise ProgramError(f"engine: needed {' or '.join(able)}, found {shortened(found)}{why}")


def _check_reach(instruction: OnEngine, chip: Chip) -> None:
    engine = chip.engine(instruction.engine)
    for name, verb, access in out_of_reach(instruction, engine):
        buffers = " or ".join(engine.reads if verb == "reads" else engine.writes) or "no buffer"
        raise ProgramError(f"{name}: {instruction.engine} {verb} {buffers}, found {access.buffer}")
    if too_many_results(instruction, engine):
        raise ProgramError(
            f"operands: of those of {instruction.engine} at most {engine.result_operands} may lie "
            f"in result_buffer, found {len(reads_per_element(instruction))}"
        )


def _check_number(name: str, value: float) -> None:
    if isinstance(value, int) and value not in INT32:
        raise ProgramError(f"{name}: a whole number has 32 bits here, found {value}")


def _check_per_lane(instruction: OnEngine) -> None:
    """Hold the operands of one element per lane, or of few, against the instruction's lanes."""
    target, behind = target_of(instruction), BY_CLASS[type(instruction)].operands.results
    for name, access, many in few_per_lane(instruction):
        if (access.partitions, access.elements) != (target.partitions, many):
            count = "one element" if many == 1 else f"{many} elements"
            raise ProgramError(
                f"{name}: needed {count} in each of {target.partitions} partitions, "
                f"found {access.partitions} x {access.elements}"
            )
        if name in behind and access.buffer is not target.buffer:
            raise ProgramError(
                f"{name}: must lie in the target's buffer, {target.buffer}, found {access.buffer}"
            )


def _check_word(field: Field, value: Any) -> None:
    if field.words and value is not None and value not in field.words:
        there_are = f"(there are: {', '.join(field.words)}){perhaps(value, field.words)}"
        raise ProgramError(f'{field.name}: there is no "{shortened(value)}" {there_are}')


def _check_shapes(instruction: OnEngine) -> None:
    """Hold operands against the target: so many elements of each, in every lane, make one."""
    target, many = target_of(instruction), window(instruction)
    if many < 1:
        raise ProgramError(f"window: needed at least 1 element, found {many}")
    operands = BY_CLASS[type(instruction)].operands
    if operands.made is not None:
        _check_made(instruction, operands.made)
        return
    if operands.is_across:
        _check_across(instruction)
        return
    for name, access in per_element_operands(instruction):
        if (access.partitions, access.elements) != (target.partitions, target.elements * many):
            each = "" if rhythm(instruction) is not Rhythm.WINDOWED else f" of {many} each"
            raise ProgramError(
                f"{name} has {access.partitions} x {access.elements} elements, "
                f"target {target.partitions} x {target.elements}{each}"
            )


def _check_made(instruction: OnEngine, made: int) -> None:
    """Hold a target whose number of elements does not depend on the operand against that number."""
    ((name, access),), target = per_element_operands(instruction), target_of(instruction)
    if (target.partitions, target.elements) != (access.partitions, made):
        raise ProgramError(
            f"target: needed {access.partitions} x {made} elements for {access.partitions} "
            f"partitions of {name}, found {target.partitions} x {target.elements}"
        )


def _check_across(instruction: OnEngine) -> None:
    """Hold the one partition of a target against the elements of the operand."""
    ((name, access),), target = per_element_operands(instruction), target_of(instruction)
    if (target.partitions, target.elements) != (1, access.elements):
        raise ProgramError(
            f"target: needed 1 x {access.elements} elements, one for all partitions of {name}, "
            f"found {target.partitions} x {target.elements}"
        )


def _check_transpose(turned: Transpose) -> None:
    lanes, elements, side = turned.source.partitions, turned.source.elements, turned.side
    if side < 1 or lanes % side or elements % side:
        raise ProgramError(
            f"side: needed blocks of side x side elements that fill {lanes} x {elements}, "
            f"found {side}"
        )


def _check_shuffle(shuffle: Shuffle) -> None:
    lanes, mask = shuffle.source.partitions, shuffle.mask
    if not mask or lanes % len(mask):
        raise ProgramError(
            f"mask: needed so many entries that groups of them fill {lanes} partitions, "
            f"found {len(mask)}"
        )
    for entry in mask:
        if entry != UNCHANGED and not 0 <= entry < len(mask):
            raise ProgramError(
                f"mask: an entry is 0 to {len(mask) - 1}, or {UNCHANGED} for a lane that keeps "
                f"what it has, found {entry}"
            )


def _check_scan(scan: Scan) -> None:
    integers = _check_operation("op", scan.op, {"left": scan.left, "initial": scan.initial})
    first = 0 if integers else 0.0
    made = _check_operation(
        "then", scan.then, {f"the result of {scan.op}": first, "right": scan.right}
    )
    if integers and not made:  # from the second element on, the earlier result is no integer
        _check_operation("op", scan.op, {"left": scan.left, f"the result of {scan.then}": 0.0})


def _check_bn_aggr(both: BnAggr) -> None:
    if both.source.elements % 3:
        raise ProgramError(
            "source: needed (count, mean, count * variance) again and again, a multiple of 3 "
            f"elements, found {both.source.elements}"
        )


def _check_max8(largest: Max8) -> None:
    if largest.source.elements < largest.target.elements:
        raise ProgramError(
            f"source: needed at least {largest.target.elements} elements, "
            f"found {largest.source.elements}"
        )


def _check_find_index8(search: FindIndex8) -> None:
    _check_searched(search.source, search.target.elements)
    _check_indices("target", search.target)


def _check_match_replace8(search: MatchReplace8) -> None:
    _check_searched(search.source, 1)
    if search.indices is not None:
        _check_indices("indices", search.indices)


def _check_searched(source: Access, least: int) -> None:
    if not least <= source.elements <= MAX_SEARCHED:
        raise ProgramError(
            f"source: needed {least} to {MAX_SEARCHED} elements in each partition, "
            f"found {source.elements}"
        )


def _check_indices(name: str, access: Access) -> None:
    if access.dtype != "s32":
        raise ProgramError(f"{name}: where an element is, is an s32, found {access.dtype}")


def _check_tensor_tensor(both: TensorTensor) -> None:
    _check_operation("op", both.op, {"left": both.left, "right": both.right})


def _check_tensor_scalar(one: TensorScalar) -> None:
    integers = _check_operation("op", one.op, {"source": one.source, "scalar": one.scalar})
    if one.then is None:
        if one.other != 0 or one.then_reverse:
            raise ProgramError("other and then_reverse mean nothing without then")
        return
    first = 0 if integers else 0.0
    _check_operation("then", one.then, {f"the result of {one.op}": first, "other": one.other})


def _check_tensor_scalar_reduce(one: TensorScalarReduce) -> None:
    _check_operation("op", one.op, {"source": one.source, "scalar": one.scalar})


def _check_scalar_tensor_tensor(three: ScalarTensorTensor) -> None:
    integers = _check_operation("op", three.op, {"source": three.source, "scalar": three.scalar})
    first = 0 if integers else 0.0
    _check_operation(
        "then", three.then, {f"the result of {three.op}": first, "tensor": three.tensor}
    )


def _check_operation(name: str, op: str, operands: dict[str, Access | float]) -> bool:
    """Return whether the result is an integer; refuse the bits of floating-point numbers."""
    floating = [what for what, operand in operands.items() if not _is_integer(operand)]
    if floating and op in INTEGERS_ONLY:
        raise ProgramError(f"{name}: {op} takes integers, but {floating[0]} is floating-point")
    return not floating and op != "power"


def _is_integer(operand: Access | float) -> bool:
    if isinstance(operand, Access):
        return data_type(operand.dtype).accumulator == "s32"
    return isinstance(operand, int)


def _check_requantise(one: Requantise) -> None:
    if not _is_integer(one.target):
        raise ProgramError(f"target: requantise gives integers, found {one.target.dtype}")
    if isinstance(one.scale, Access) and _is_integer(one.scale):
        raise ProgramError(f"scale: needs floating-point numbers, found {one.scale.dtype}")
    if one.lowest > one.highest:
        raise ProgramError(f"lowest is {one.lowest}, but highest is {one.highest}")


_ENGINE_RULES: dict[type, Callable[[Any], None]] = {
    TensorTensor: _check_tensor_tensor,
    TensorScalar: _check_tensor_scalar,
    TensorScalarReduce: _check_tensor_scalar_reduce,
    ScalarTensorTensor: _check_scalar_tensor_tensor,
    Transpose: _check_transpose,
    Shuffle: _check_shuffle,
    Scan: _check_scan,
    BnAggr: _check_bn_aggr,
    Max8: _check_max8,
    FindIndex8: _check_find_index8,
    MatchReplace8: _check_match_replace8,
    Requantise: _check_requantise,
}
"""The further rules of some instructions, beyond engine, accesses, shapes and numbers."""


# -- accesses -----------------------------------------------------------------------------------


def check_access(name: str, access: Access, chip: Chip) -> None:
    """Raise ProgramError unless the chip has every byte of the access, and aligned."""
    if access.dtype not in DATA_TYPES:
        raise ProgramError(f"{name}: unknown data type {access.dtype}")
    if not 1 <= len(access.pattern) <= MAX_PAIRS:
        raise ProgramError(
            f"{name}: 1 to {MAX_PAIRS} [step, count] pairs, found {len(access.pattern)}"
        )
    if access.partitions < 1 or any(count < 1 for _, count in access.pattern):
        raise ProgramError(f"{name}: an access needs at least one partition and one element")
    _check_size(name, access)
    partitions, size = _extent(access.buffer, chip)
    last = access.partition + access.partitions
    if access.partition < 0 or last > partitions:
        raise ProgramError(
            f"{name}: partitions {access.partition} to {last - 1} of {access.buffer}, "
            f"which has {partitions}"
        )
    span = access.span
    if span.first < 0 or span.stop > size:
        raise ProgramError(
            f"{name}: bytes {span.first} to {span.stop - 1} of {access.buffer}, which has {size}"
        )
    if access.start % access.element_bytes:
        raise ProgramError(f"{name}: byte {access.start} is not aligned to {access.element_bytes}")
    if access.dtype not in chip.pe_array.pass_through:
        _check_words(name, access)


def _check_words(name: str, access: Access) -> None:
    """Refuse shorter elements in the words of the result buffer: only what passes through is."""
    if access.buffer is Buffer.RESULT and access.dtype not in ("f32", "s32"):
        raise ProgramError(f"{name}: result-buffer words are f32 or s32, found {access.dtype}")


def _check_size(name: str, access: Access) -> None:
    """Refuse what a step of 0 names without end, and steps no address can follow."""
    most = MAX_DRAM_ELEMENTS if access.buffer is Buffer.DRAM else MAX_ELEMENTS
    if access.elements > most:
        raise ProgramError(
            f"{name}: at most {most} elements in a partition, found {access.elements}"
        )
    for step, _ in access.pattern:
        if abs(step) > MAX_STEP:
            raise ProgramError(f"{name}: a step is at most {MAX_STEP} elements, found {step}")


def _extent(buffer: Buffer, chip: Chip) -> tuple[int, int]:
    if buffer is Buffer.STATE:
        return chip.state_buffer.partitions, chip.state_buffer.bytes_per_partition
    if buffer is Buffer.RESULT:
        words = chip.result_buffer.bytes_per_partition // PSUM_WORD_BYTES
        return chip.pe_array.cols, words * PSUM_WORD_BYTES
    return 1, chip.dram.size_bytes


def need(name: str, access: Access, holds: bool, where: str) -> None:
    """Raise ProgramError unless the access lies where it must."""
    if not holds:
        raise ProgramError(f"{name}: must lie {where}, found {access.buffer}")


def at_most(what: str, found: int, limit_name: str, limit: int) -> None:
    """Raise ProgramError if there are more than there is room for."""
    if found > limit:
        raise ProgramError(f"{what} is {found}, but there are {limit} {limit_name}")
