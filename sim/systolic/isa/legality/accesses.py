"""Has the chip every byte of an access, aligned, and in the buffer where it must lie?"""

from __future__ import annotations

from systolic.errors import ProgramError
from systolic.hw.datatypes import KNOWN_TYPES, PSUM_WORD_BYTES
from systolic.hw.spec import Chip
from systolic.isa.access import MAX_PAIRS, Access, Buffer

MAX_ELEMENTS, MAX_DRAM_ELEMENTS = 1 << 24, 1 << 32
"""The most elements of an access, in a partition and in DRAM; repeated ones count again."""
MAX_STEP = 1 << 40


def check_access(name: str, access: Access, chip: Chip) -> None:
    """Raise ProgramError unless the chip has every byte of the access, and aligned."""
    if access.dtype not in KNOWN_TYPES:
        raise ProgramError(f"{name}: unknown data type {access.dtype}")
    if not 1 <= len(access.pattern) <= MAX_PAIRS:
        raise ProgramError(
            f"{name}: 1 to {MAX_PAIRS} [step, count] pairs, found {len(access.pattern)}"
        )
    if access.partitions < 1 or any(count < 1 for _, count in access.pattern):
        raise ProgramError(f"{name}: an access needs at least one partition and one element")
    _check_size(name, access)
    partitions, size = extent(access.buffer, chip)
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
        check_words(name, access)


def check_words(name: str, access: Access) -> None:
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


def check_one_bank(what: str, access: Access, chip: Chip) -> None:
    """Refuse what lies in several banks, where a value says which of it is read or written."""
    is_state = access.buffer is Buffer.STATE
    bank = (chip.state_buffer if is_state else chip.result_buffer).bank_bytes
    low, high = access.span
    if low // bank != (high - 1) // bank:
        raise ProgramError(
            f"{what} must lie in one bank of {bank} bytes, found bytes {low} to {high - 1}"
        )


def extent(buffer: Buffer, chip: Chip) -> tuple[int, int]:
    """Return the partitions of a buffer and the bytes of each."""
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
