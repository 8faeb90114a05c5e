"""Has the chip every byte of an access, aligned, and in the buffer where it must lie?"""

from __future__ import annotations

import math
from functools import lru_cache

from systolic.errors import ProgramError
from systolic.hw.datatypes import KNOWN_TYPES, PSUM_WORD_BYTES
from systolic.hw.spec import Chip
from systolic.isa.access import MAX_PAIRS, Access, Buffer, Pattern

MAX_ELEMENTS, MAX_DRAM_ELEMENTS = 1 << 24, 1 << 32
"""The most elements of an access, in a partition and in DRAM; repeated ones count again."""
MAX_STEP = 1 << 40


def check_access(name: str, access: Access, chip: Chip) -> None:
    """Raise ProgramError unless the chip has every byte of the access, and aligned."""
    fault = _form_fault(access.buffer, access.dtype, access.partitions, access.pattern)
    if fault is not None:
        raise ProgramError(f"{name}: {fault}")
    partitions, size = extent(access.buffer, chip)
    last = access.partition + access.partitions
    if access.partition < 0 or last > partitions:
        raise ProgramError(
            f"{name}: partitions {access.partition} to {last - 1} of {access.buffer}, "
            f"which has {partitions}"
        )
    low, high = access.low_and_high
    if low < 0 or high > size:
        raise ProgramError(
            f"{name}: bytes {low} to {high - 1} of {access.buffer}, which has {size}"
        )
    if access.start % access.element_bytes:
        raise ProgramError(f"{name}: byte {access.start} is not aligned to {access.element_bytes}")
    if access.dtype not in chip.pe_array.pass_through:
        check_words(name, access)


def check_words(name: str, access: Access) -> None:
    """Refuse shorter elements in the words of the result buffer: only what passes through is."""
    if access.buffer is Buffer.RESULT and access.dtype not in ("f32", "s32"):
        raise ProgramError(f"{name}: result-buffer words are f32 or s32, found {access.dtype}")


@lru_cache(maxsize=4096)
def _form_fault(buffer: Buffer, dtype: str, partitions: int, pattern: Pattern) -> str | None:
    """Return what is wrong with an access wherever it lies: a program has few forms of them."""
    if dtype not in KNOWN_TYPES:
        return f"unknown data type {dtype}"
    if not 1 <= len(pattern) <= MAX_PAIRS:
        return f"1 to {MAX_PAIRS} [step, count] pairs, found {len(pattern)}"
    if partitions < 1 or any(count < 1 for _, count in pattern):
        return "an access needs at least one partition and one element"
    # A step of 0 would name elements without end, and a wide one what no address can follow.
    most = MAX_DRAM_ELEMENTS if buffer is Buffer.DRAM else MAX_ELEMENTS
    elements = math.prod(count for _, count in pattern)
    if elements > most:
        return f"at most {most} elements in a partition, found {elements}"
    for step, _ in pattern:
        if abs(step) > MAX_STEP:
            return f"a step is at most {MAX_STEP} elements, found {step}"
    return None


def check_one_bank(what: str, access: Access, chip: Chip) -> None:
    """Refuse what lies in several banks, where a value says which part is read or written."""
    is_state = access.buffer is Buffer.STATE
    bank = (chip.state_buffer if is_state else chip.result_buffer).bank_bytes
    if access.bank(bank) is None:
        low, high = access.span
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
