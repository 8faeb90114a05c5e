"""Is what an instruction says of scales, and of the numbers that share them, legal?

The other rules of the array are in `systolic.isa.legality.array` and `tiles`.
"""

from __future__ import annotations

from systolic.errors import ProgramError
from systolic.hw.datatypes import SCALE_TYPES
from systolic.hw.spec import Chip
from systolic.isa.access import Access, Buffer
from systolic.isa.instruction import LoadMx, LoadWeights, MatMul, MatMulMx, QuantizeMx
from systolic.isa.scales import (
    GROUP_ELEMENTS,
    GROUP_PARTITIONS,
    QUADRANT,
    ROOM_OF_QUADRANT,
    SCALES_OF_QUADRANT,
    scale_span,
)

SOURCES, TARGETS = ("bf16", "f16"), ("f8e4m3fn", "f8e5m2")
"""What `quantize_mx` reads, and what it makes (nki.isa)."""


def check_mx(name: str, instruction: LoadWeights | MatMul, access: Access, chip: Chip) -> None:
    """Hold what only MX products must be: of a type that the PEs take so, whole groups, scales."""
    if not isinstance(instruction, LoadMx | MatMulMx):
        return
    if access.dtype not in (known := chip.pe_array.mx):
        raise ProgramError(
            f"{name}: the array of {chip.name} takes four rows in a PE, with scales, of "
            f"{', '.join(known) or 'no type'} (pe_array.mx), not of {access.dtype}"
        )
    if access.elements % instruction.elements_per_pe:
        raise ProgramError(
            f"{name}: needed four elements for each PE, a multiple of 4 in each partition, "
            f"found {access.elements}"
        )
    check_scales(instruction.scales, access, access.elements // instruction.elements_per_pe)


def check_quantize_mx(quantize: QuantizeMx) -> None:
    """Raise ProgramError for types, buffers, groups and scales that quantize_mx cannot have."""
    source, target = quantize.source, quantize.target
    for name, access, types in (("source", source, SOURCES), ("target", target, TARGETS)):
        if access.dtype not in types:
            raise ProgramError(f"{name}: needed {' or '.join(types)}, found {access.dtype}")
        if access.buffer is not Buffer.STATE:
            raise ProgramError(f"{name}: must lie in the state buffer, found {access.buffer}")
    if source.elements % GROUP_ELEMENTS:
        raise ProgramError(
            f"source: a group has {GROUP_ELEMENTS} elements of each partition, so needed a "
            f"multiple of {GROUP_ELEMENTS}, found {source.elements}"
        )
    if quantize.headroom not in (0, 1):
        raise ProgramError(f"headroom: needed 0 or 1, found {quantize.headroom}")
    check_scales(quantize.scales, target, source.elements // GROUP_ELEMENTS)


def check_scales(scales: Access, data: Access, columns: int) -> None:
    """Hold scales against the data that share them, which have `columns` groups side by side."""
    if scales.buffer is not Buffer.STATE:
        raise ProgramError(f"scales: must lie in the state buffer, found {scales.buffer}")
    if scales.dtype not in SCALE_TYPES:
        raise ProgramError(
            f"scales: a scale is a byte, {' or '.join(SCALE_TYPES)}, found {scales.dtype}"
        )
    if data.partitions % GROUP_PARTITIONS:
        raise ProgramError(
            f"scales: a group has {GROUP_PARTITIONS} partitions, so the data need a multiple of "
            f"{GROUP_PARTITIONS}, found {data.partitions}"
        )
    wanted = scale_span(data.partitions)
    if (scales.partitions, scales.elements) != (wanted, columns):
        several = ", from the first scale of their first quadrant to the last of the last one"
        raise ProgramError(
            f"scales: needed {wanted} x {columns} for data in {data.partitions} partitions"
            f"{several if data.partitions > QUADRANT else ''}, found {scales.partitions} x "
            f"{scales.elements}"
        )
    of_first = min(SCALES_OF_QUADRANT, data.partitions // GROUP_PARTITIONS)
    last = data.partition + min(ROOM_OF_QUADRANT, data.partitions) - of_first
    if not data.partition <= scales.partition <= last:
        raise ProgramError(
            f"scales: lie among the first {ROOM_OF_QUADRANT} partitions of the data that they are "
            f"for, so the first must be {data.partition} to {last}, found {scales.partition}"
        )
