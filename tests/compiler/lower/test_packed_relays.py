"""Is the value right? Packed tensors that are moved as bytes and then unpacked in planes.

numpy is the oracle of values, `support.packed` that of the memory, bit by bit; the program checker
says that nothing is unpacked which nothing has written.
"""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.packed import run
from systolic.workload import Graph, GraphBuilder

SMALL = ideal_chip(
    8, 8, state_buffer={"partitions": 16, "banks": 8}, result_buffer={"banks": 4, "bank_bytes": 64}
)


def transposed(source: str, out: str, axes: tuple[int, ...]) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", source)
    builder.transpose("x", out, axes, name="y")
    return builder.graph()


@pytest.mark.parametrize(
    ("source", "out", "axes"),
    [
        ("pred[40,64]{0,1:T(8,4)(8,1)E(1)}", "pred[64,40]", (1, 0)),
        ("pred[5,24]{0,1:T(16,4)(16,1)E(1)}", "pred[5,24]", (0, 1)),  # columns of padding
        ("u2[1,5,32]{1,2,0:T(8,4)(4,1)E(2)}", "u2[32,1,5]{0,1,2}", (2, 0, 1)),
        ("s4[5,8,5]{0,1,2:T(4,8)(2,1)E(4)}", "s4[8,5,5]{2,1,0}", (1, 0, 2)),
        ("s4[4,16]{0,1:T(4,4)(4,1)E(4)}", "s4[4,16]{0,1}", (0, 1)),
        ("pred[16,3,4]{2,0,1:T(8,4)(8,1)E(1)}", "pred[4,16,3]{2,0,1:T(4,4)(4,1)}", (2, 0, 1)),
    ],
)
def test_bytes_are_put_in_order_and_unpacked_in_planes(
    source: str, out: str, axes: tuple[int, ...]
) -> None:
    compiled, inputs, outputs = run(transposed(source, out, axes), SMALL)
    assert any("goes to y byte by byte" in choice for choice in compiled.layers.choices)
    x, y = (np.asarray(each).view(np.uint8) for each in (inputs["x"], outputs["y"]))
    np.testing.assert_array_equal(y, x.transpose(axes))


def test_four_bytes_of_a_word_are_unpacked_at_once() -> None:
    """8 instructions on 64 words in each of 16 lanes, between rounds of bytes and of elements.

    Without rounds DMA sends the elements, and all of it takes 3,589 cycles.
    """
    result = systolic.run(
        transposed("pred[32,1024]{0,1:T(32,32)(32,1)E(1)}", "pred[1024,32]", (1, 0)),
        "ideal_128x128",
    )
    unpacking = [i for i in result.program.instructions if type(i).__name__ == "TensorScalar"]
    assert [(i.source.dtype, i.source.pattern) for i in unpacking] == [("s32", ((1, 64),))] * 8
    assert (result.cycles, result.program.count()) == (1175, {"Copy": 160, "TensorScalar": 8})


def test_bytes_and_elements_change_lanes_in_rounds() -> None:
    chip = ideal_chip(
        8, 8, state_buffer={"partitions": 16, "banks": 8}, activation={"independent_lanes": True},
        result_buffer={"banks": 4, "bank_bytes": 64},
    )  # fmt: skip
    source, out = "pred[2,8,256]{1,2,0:T(16,8)(16,1)E(1)}", "pred[256,8,2]{1,0,2}"
    graph = transposed(source, out, (2, 1, 0))
    compiled, inputs, outputs = run(graph, chip)
    legs = [node.change.engine for node in compiled.layers.nodes if node.change is not None]
    assert legs == ["activation"] * 2
    np.testing.assert_array_equal(outputs["y"], inputs["x"].transpose(2, 1, 0))


def test_elements_whose_byte_crosses_rows_are_collected_as_before() -> None:
    graph = transposed("pred[16,9]{0,1:T(8,4)E(1)}", "pred[9,16]", (1, 0))
    compiled, inputs, outputs = run(graph, SMALL)
    assert not any("byte by byte" in choice for choice in compiled.layers.choices)
    np.testing.assert_array_equal(outputs["y"], inputs["x"].T)
