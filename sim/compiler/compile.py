"""The compiler's passes in order: recognise, cut, place and lower, synchronise, check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sim.compiler.options import Options
from sim.compiler.recognise import MatrixSet, recognise_transpose
from sim.compiler.steps import synchronise
from sim.compiler.transpose import Lowered, Piece, cut, lower_transpose
from sim.errors import CompileError
from sim.hw.datatypes import DATA_TYPES
from sim.hw.spec import Chip
from sim.hw.timing import Bound, dram_bound, transpose_bound
from sim.isa import Access, Program, check_program
from sim.layout import Decomposition, Shape


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program and what one must know to run it and to read its result.

    source and result: pieces of [batch..., rows, columns] (result: columns, rows) and where they
    lie; one piece without slices is the whole tensor. identity: where a stored identity must be.
    """

    program: Program
    matrices: MatrixSet
    blocks: Decomposition
    sub_blocks: int
    source: tuple[Piece, ...]
    result: tuple[Piece, ...]
    identity: Access | None
    bound: Bound
    removed_waits: int


def compile_transpose(
    name: str,
    shape: Shape,
    permutation: Sequence[int],
    chip: Chip,
    options: Options | None = None,
    home: Literal["state_buffer", "dram"] = "state_buffer",
    out: Shape | None = None,
) -> Compiled:
    """Compile the permutation of a tensor's axes.

    `shape` and `out` (default: row major) carry the layouts the tensors have in DRAM.

    Raises CompileError if the chip cannot take the type, or the work does not fit its buffers.
    """
    options = options or Options()
    _refuse_type(shape, chip, options)
    matrices = recognise_transpose(shape, permutation)
    result = out or Shape(shape.element_type, tuple(shape.dims[a] for a in permutation))
    lowered = lower_transpose(matrices, (shape, result), chip, options, home)
    synchronised = synchronise(name, lowered.steps)
    check_program(synchronised.program, chip)
    return Compiled(
        program=synchronised.program,
        matrices=matrices,
        blocks=cut(matrices, chip, options),
        sub_blocks=len(lowered.tiles),
        source=tuple(lowered.source),
        result=tuple(lowered.result),
        identity=lowered.identity,
        bound=_bound(shape, chip, options, lowered, home),
        removed_waits=synchronised.removed_waits,
    )


def _refuse_type(shape: Shape, chip: Chip, options: Options) -> None:
    known = chip.pe_array.cycles_per_vector if options.via == "pe" else DATA_TYPES
    if shape.element_type not in known:
        unit = f"the array of {chip.name}" if options.via == "pe" else "the machine"
        raise CompileError(
            f"{shape}: {unit} cannot take {shape.element_type}; it takes {', '.join(known)}"
        )


def _bound(shape: Shape, chip: Chip, options: Options, lowered: Lowered, home: str) -> Bound:
    size = DATA_TYPES[shape.element_type].size_bytes * shape.num_elements()
    if options.via == "dram":
        return dram_bound(chip, 2 * size)
    tiles = [(tile.K, tile.N) for tile in lowered.tiles]
    dram_bytes = size if home == "dram" else 0
    return transpose_bound(chip, tiles, shape.element_type, options.drain_engine, dram_bytes)
