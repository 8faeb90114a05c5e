"""Does a result for which inputs must make room have its bytes tile by tile? With the right words?

`support.tiled_homes` holds every byte of inputs, result and padding to numpy and the placement law.
"""

from __future__ import annotations

import pytest

import systolic
from support.tiled_homes import chip_8x8, run
from systolic.compiler import compile_graph
from systolic.workload import Graph, GraphBuilder

MATRICES = 16
IDENTITY, INPUTS, RESULT = 8 * 4, 2 * MATRICES * 8 * 4, MATRICES * 16 * 4
"""Bytes of a partition: of the identity, of both operands, and of the result in rows of 16."""


def product(right: str = "") -> Graph:
    builder = GraphBuilder("state_buffer")
    x = builder.tensor("x", f"f32[{MATRICES},8,8]")
    w = builder.tensor("w", f"f32[{MATRICES},8,8]{right}")
    builder.matmul(x, w, f"f32[{MATRICES},8,8]{{2,1,0:T(8,16)}}", name="y")
    return builder.graph()


@pytest.mark.parametrize("right", ["", "{1,2,0}"])
@pytest.mark.parametrize("bytes_per_partition", [1152, 1536, 2000])
def test_memory_is_that_of_numpy_on_both_engines(right: str, bytes_per_partition: int) -> None:
    """In 1152 bytes some operands lie where the first results come, and leave for DRAM."""
    chip = chip_8x8(bytes_per_partition=bytes_per_partition)
    plans = [run(product(right), chip, engine)[0].scheduled for engine in ("event", "register")]
    assert dict(plans[0].bases)["y" + (".4" if right else ".3")] == IDENTITY  # it grows from there
    assert (plans[0].evictions > 0) == (bytes_per_partition == 1152)


@pytest.mark.parametrize("bytes_per_partition", [1536, 2000])
def test_no_operand_leaves_if_it_lies_behind_what_is_made_before_its_last_use(
    bytes_per_partition: int,
) -> None:
    """Operands begin 512 bytes or more behind the result, so they lie where its last tiles come."""
    assert bytes_per_partition < IDENTITY + INPUTS + RESULT
    chip = chip_8x8(bytes_per_partition=bytes_per_partition)
    assert compile_graph("grows", product(), chip, verify=True).scheduled.spilled_bytes == 0


def test_with_room_for_all_nothing_grows() -> None:
    chip = chip_8x8(bytes_per_partition=4096)
    scheduled = compile_graph("fits", product(), chip, verify=True).scheduled
    places = dict(scheduled.bases)
    assert scheduled.evictions == 0
    assert places["y.3"] != IDENTITY


def test_the_batched_product_whose_tensors_need_79872_of_65536_bytes() -> None:
    """Nearly all operands left for DRAM, one at a time: 593,631 cycles."""
    builder = GraphBuilder("state_buffer")
    x, w = builder.tensor("x", "bf16[96,96,80]"), builder.tensor("w", "bf16[96,80,64]{1,2,0}")
    builder.matmul(x, w, "f32[96,96,64]{2,1,0:T(8,128)}", name="y")
    done = systolic.run(builder.graph(), "neuroncore_v1", values=False)
    assert done.summary["bound"]["cycles"] <= done.cycles <= 47_000
