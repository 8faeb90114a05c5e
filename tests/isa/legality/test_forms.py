"""Is an instruction as legal behind others of its form as it is alone?"""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

from support.blocks import state
from support.chips import ideal_chip
from systolic.errors import ProgramError
from systolic.isa import (
    Access,
    Activate,
    Copy,
    Instruction,
    Memset,
    Pool,
    Program,
    Select,
    TensorScalar,
    TensorTensor,
    check_program,
)

A, B, TARGET, LANE = state(0, 4, 0, 8), state(0, 4, 64, 8), state(0, 4, 128, 8), state(0, 4, 256, 1)
KINDS: list[Instruction] = [
    Activate(function="ramp", source=A, target=TARGET),
    Pool(function="max", window=4, source=A, target=state(0, 4, 128, 2)),
    TensorTensor(engine="pooling", op="add", left=A, right=B, target=TARGET),
    TensorScalar(engine="activation", op="add", source=A, scalar=LANE, target=TARGET),
    Select(engine="pooling", compare="equal", value=A, target=TARGET),
    Copy(engine="pooling", source=A, target=TARGET),
    Memset(engine="pooling", target=TARGET, value=0),
]
CHIP = ideal_chip(4, 4)
SIZE = CHIP.state_buffer.bytes_per_partition
STARTS = (0, 64, 128, 6, SIZE - 32, SIZE - 28, SIZE, -4)
"""Most of them are legal; one is not aligned, and four lie outside the buffer, or end there."""
VALUES = (0, 0.0, 1, True, 1 << 40, 2.0**40)
"""Equal numbers, of which one is legal and the other is not."""


def varied(rng: Random) -> Instruction:
    """Return an instruction of some kind whose accesses begin anywhere."""
    one = rng.choice(KINDS)
    accesses = {f.name for f in fields(one) if isinstance(getattr(one, f.name), Access)}
    moved = {
        name: replace(
            getattr(one, name), start=rng.choice(STARTS[: 3 if rng.random() < 0.9 else 8])
        )
        for name in accesses
    }
    one = replace(one, **moved)
    if isinstance(one, Memset):
        one = replace(one, value=rng.choice(VALUES))
    return replace(one, engine="activation") if rng.random() < 0.05 else one


def refusal(instructions: list[Instruction]) -> str | None:
    """Return why the last of some instructions is illegal; those before it are legal."""
    try:
        check_program(Program("p", tuple(instructions)), CHIP)
    except ProgramError as error:
        return str(error).split(": ", 2)[2]
    return None


def test_what_is_behind_others_of_its_form_is_as_legal_as_alone():
    rng, legal, refused = Random(3), list[Instruction](), set[str]()
    for _ in range(400):
        one = varied(rng)
        why = refusal([one])
        assert refusal([*legal, one]) == why
        if why is None:
            legal.append(one)
        else:
            refused.add(why)
    assert len(legal) > 200
    assert len(refused) > 10
