"""What does a tensor look like in the state buffer? The simulated bytes against `layout`."""

from __future__ import annotations

import numpy as np
import pytest

from support.chips import ideal_chip
from support.runs import run_transpose
from systolic.isa import Buffer
from systolic.layout import BufferGeometry, Shape, place_in_state_buffer


@pytest.mark.parametrize("shape", ["f32[40,30]", "bf16[33,17]", "s8[5,64]", "f32[16,16]"])
def test_source_and_result_lie_as_placed(shape):
    """Byte for byte, padding included: the source at 0, its transpose at the second address."""
    chip = ideal_chip(16, 8)
    source = Shape.parse(shape)
    data = (np.arange(source.num_elements()) % 100).reshape(source.dims).astype(source.dtype)
    _, outcome, compiled = run_transpose(chip, shape, data)
    memory = outcome.memory.bytes_of(Buffer.STATE)
    buffer = chip.state_buffer
    sizes = buffer.partitions, buffer.bytes_per_partition, buffer.banks
    geometry = BufferGeometry("state_buffer", *sizes)
    block = (buffer.partitions, buffer.partitions)
    second = min(piece.access.start for piece in compiled.scheduled.kept)
    for tensor, values, start in (
        (source, data, 0),
        (compiled.graph.shape("result"), np.ascontiguousarray(data.T), second),
    ):
        placed = place_in_state_buffer(tensor, geometry, block, base_byte=start)
        image = placed.image(values)
        found = memory[: image.shape[0], start : start + image.shape[1]]
        assert np.array_equal(found, image)
