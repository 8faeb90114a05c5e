"""Are copies and transposes of DMA legal on a chip?"""

from __future__ import annotations

from systolic.errors import ProgramError
from systolic.hw.spec import Chip
from systolic.isa.access import Access, Buffer
from systolic.isa.instruction import DmaCopy, DmaTranspose
from systolic.isa.legality.accesses import check_access, check_words, need


def check_dma(copy: DmaCopy, chip: Chip) -> None:
    """Raise ProgramError unless a queue of the chip can copy the source to the target."""
    if not 0 <= copy.dma_queue < chip.dma.queues:
        raise ProgramError(
            f"DMA queue {copy.dma_queue} does not exist (there are {chip.dma.queues})"
        )
    source, target = copy.source, copy.target
    for name, access in (("source", source), ("target", target)):
        check_access(name, access, chip)
        check_words(name, access)
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


def check_dma_transpose(copy: DmaTranspose, chip: Chip) -> None:
    """Hold a transpose against what the chip's DMA turns, and against the shape of a matrix."""
    check_dma(copy, chip)
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
