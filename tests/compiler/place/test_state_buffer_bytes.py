"""What does a tensor look like in the state buffer? The simulated bytes against `layout`."""

from __future__ import annotations

import numpy as np
import pytest

from support.chips import ideal_chip
from support.placement_law import PlacementLaw
from support.runs import run_transpose
from systolic.isa import Buffer
from systolic.layout import Shape


@pytest.mark.parametrize("shape", ["f32[40,30]", "bf16[33,17]", "s8[5,64]", "f32[16,16]"])
def test_source_and_result_lie_as_placed(shape):
    """Element for element: the source at 0, its transpose at the second address."""
    chip = ideal_chip(16, 8)
    source = Shape.parse(shape)
    data = (np.arange(source.num_elements()) % 100).reshape(source.dims).astype(source.dtype)
    _, outcome, compiled = run_transpose(chip, shape, data)
    memory = outcome.memory.bytes_of(Buffer.STATE)
    placed = compiled.placements()
    assert placed["source"].base_byte == 0 < placed["result"].base_byte
    for name, values in (("source", data), ("result", np.ascontiguousarray(data.T))):
        law = PlacementLaw(placed[name].shape, chip.state_buffer.partitions)
        for index in np.ndindex(*values.shape):
            partition, address = law.place(index)
            start = placed[name].base_byte + address * values.itemsize
            held = memory[partition, start : start + values.itemsize]
            assert held.tobytes() == values[index].tobytes(), f"{name}{index}"


@pytest.mark.parametrize(
    ("source", "permutation"),
    [("bf16[3,20,17]", (0, 2, 1)), ("s8[2,5,4,9]", (0, 3, 1, 2))],
)
def test_what_the_compiler_chose_gives_the_same_run_when_pasted_back(source, permutation):
    chip, dims = ideal_chip(16, 8), Shape.parse(source).dims
    data = (np.arange(np.prod(dims)) % 100).reshape(dims).astype(Shape.parse(source).dtype)
    _, first, chosen = run_transpose(chip, source, data, permutation)
    lies = {name: str(placed.shape) for name, placed in chosen.placements().items()}
    assert all("T(" in text for text in lies.values())
    _, second, pasted = run_transpose(chip, lies["source"], data, permutation, out=lies["result"])
    assert pasted.placements() == chosen.placements()
    assert second.trace.ticks == first.trace.ticks
