"""Short spellings for small programs that the checker looks at, and a chip for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from support.chips import ideal_chip
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Program
from systolic.isa.formats.write_text import parse_text
from systolic.isa.lint.diagnostic import Diagnostic
from systolic.isa.lint.lint import lint

SEMAPHORES = 4
BUFFERS = {"sb": "state_buffer", "ps": "result_buffer", "dr": "dram"}


def small_chip(**tables: Any) -> Chip:
    """Return a 4 x 4 chip: 4 state-buffer banks of 64 bytes, 4 PSUM banks of 8 words."""
    base: dict[str, Any] = {
        "state_buffer": {"partitions": 4, "bytes_per_partition": 256, "banks": 4},
        "result_buffer": {"banks": 4, "bank_bytes": 32},
        "dram": {"size_bytes": 256, "bytes_per_cycle": 64},
        "activation": {"independent_lanes": False},
        "pooling": {"independent_lanes": False},
    }
    for table, values in tables.items():
        base[table] = {**base.get(table, {}), **values} if isinstance(values, dict) else values
    return ideal_chip(4, 4, **base)


def program(*lines: str) -> Program:
    """Return the program of these lines, with SEMAPHORES semaphores s0, s1, ...

    Accesses are short: ``sb0:4+16x2`` is state_buffer[0:4]+16 f32 (1x2), ps the result buffer, dr
    DRAM.
    """
    head = ["systolic program 1", 'program "scene"']
    head += [f'semaphore s{n} "s{n}"' for n in range(SEMAPHORES)]
    return parse_text("\n".join([*head, *map(_long, lines)])).program


def _long(line: str) -> str:
    return " ".join(map(_word, line.split(" ")))


def _word(word: str) -> str:
    short = re.fullmatch(r"(\w+)=(sb|ps|dr)(\d+:\d+)\+(\d+)x(\d+)", word)
    if not short:
        return word
    name, buffer, lanes, start, count = short.groups()
    return f"{name}={BUFFERS[buffer]}[{lanes}]+{start} f32 (1x{count})"


EVERYTHING = (
    Access(Buffer.STATE, "f32", 0, 4, 0, ((1, 64),)),
    Access(Buffer.DRAM, "f32", 0, 1, 0, ((1, 64),)),
)


def codes(
    lines: Sequence[str], chip: Chip | None = None, inputs: Sequence[Access] | None = EVERYTHING
) -> list[tuple[str, tuple[int, ...]]]:
    """Return (code, instructions) of everything but hints that is found in these lines."""
    return [
        (d.code, tuple(index for index, _ in d.instructions))
        for d in findings(lines, chip, inputs)
        if d.severity != "hint"
    ]


def findings(
    lines: Sequence[str], chip: Chip | None = None, inputs: Sequence[Access] | None = EVERYTHING
) -> list[Diagnostic]:
    """Return what is found; by default all of the state buffer and DRAM has contents."""
    return lint(program(*lines), chip or small_chip(), inputs)
