"""Turns of 32-bit elements half by half: u16 in float32, which an engine casts meanwhile.

numpy is the oracle of values, the register engine that of cycles, the program checker of the order.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import systolic
from compiler.lower.test_turns_by_bytes import array_chip, bits_of, check_every_bit, drawn, lone
from support.chips import ideal_chip
from systolic.compiler import compile_graph
from systolic.compiler.cost.turns import parts_turned, turned_as
from systolic.config import load_chip
from systolic.hw.spec import Chip
from systolic.shipped import CHIPS

BOTH = {"f32": 1, "u8": 1}


def square_chip(types: dict[str, int], **fields: object) -> Chip:
    return ideal_chip(64, 64, pe_array={"cycles_per_vector": types}, **fields)


@pytest.mark.parametrize("seed", range(10))
def test_every_bit_arrives_and_both_engines_agree(seed: int) -> None:
    rng = Random(f"halves {seed}")
    graph, chip = drawn(rng, "s32"), array_chip(rng, BOTH)
    x = bits_of(rng, graph)
    check_every_bit(graph, chip, x)


def test_each_half_of_all_bits_arrives_in_two_turns() -> None:
    """All 65,536 lower halves, in 256 x 256: numbers up to 65,535 are exact in float32."""
    graph = lone("state_buffer", "transpose", "s32[256,256]", "s32[256,256]", permutation=(1, 0))
    chip = load_chip(CHIPS / "ideal_128x128.toml")
    x = (np.arange(65_536, dtype=np.uint32) * 65_537).view(np.int32).reshape(256, 256)
    compiled = compile_graph("halves", graph, chip, verify=True)
    assert "x is turned half by half, as f32: 2 turns" in " ".join(compiled.layers.choices)
    assert compiled.program.count()["LoadWeights"] == 2 * 4
    result = systolic.run(graph, chip, {"x": x})
    assert (result.outputs["y"] == x.T).all()


@pytest.mark.parametrize(
    ("types", "dtype", "turns"),
    [
        (BOTH, "s32", ("u16", 2)),
        ({"u8": 1}, "s32", ("u8", 4)),  # nothing carries a half
        ({"f32": 4, "u8": 1}, "s32", ("u8", 4)),  # two slow turns take longer than four fast ones
        ({"bf16": 1, "u8": 1}, "f32", ("u8", 4)),  # bfloat16 has no number of 16 bits
        ({"f32": 1, "u8": 1}, "f16", ("u8", 2)),  # its half is a byte
        ({"f32": 1, "u8": 1}, "s8", ("f32", 0)),
    ],
)
def test_what_the_array_turns_of_an_element(
    types: dict[str, int], dtype: str, turns: tuple[str, int]
) -> None:
    part, many = turns
    chip = square_chip(types)
    assert parts_turned(chip, dtype) == many
    assert turned_as(chip, dtype) == (part if many else dtype)


def test_one_engine_that_casts_and_copies_out_turns_bytes() -> None:
    chip = square_chip(BOTH, pooling={"does": ["pool"]})
    assert (turned_as(chip, "s32"), parts_turned(chip, "s32")) == ("u8", 4)


@pytest.mark.parametrize(("room", "turns"), [(2048, "half by half, as f32: 2"), (600, "byte by")])
def test_bytes_are_turned_where_cast_halves_have_no_room(room: int, turns: str) -> None:
    """Source and result take 160 + 120 bytes, an identity 256, and cast halves 160 more."""
    chip = square_chip(BOTH, state_buffer={"bytes_per_partition": room, "banks": 1})
    graph = lone("state_buffer", "transpose", "s32[30,40]", "s32[40,30]", permutation=(1, 0))
    compiled = compile_graph("halves", graph, chip, verify=True)
    assert f"x is turned {turns}" in " ".join(compiled.layers.choices)
    x = np.arange(1200, dtype=np.int32).reshape(30, 40) * 1_000_003
    assert (systolic.run(graph, chip, {"x": x}).outputs["y"] == x.T).all()


def test_halves_of_matrices_side_by_side_are_copied_out_whole() -> None:
    """Half of the 60 rows of [2,3,20,24] would be two accesses of the result, not one."""
    chip = load_chip(CHIPS / "ideal_128x128.toml")
    graph = lone("state_buffer", "relayout", "s32[2,3,20,24]", "s32[2,3,20,24]{2,0,1,3}")
    x = np.arange(2880, dtype=np.int32).reshape(2, 3, 20, 24) * 1_000_003
    event, register = (
        systolic.run(graph, chip, {"x": x}, engine=engine) for engine in ("event", "register")
    )
    assert (event.outputs["y"] == x).all()
    assert (register.outputs["y"] == x).all()
    assert event.cycles == register.cycles
