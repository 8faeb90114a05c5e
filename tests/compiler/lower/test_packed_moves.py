"""Is the value right? Packed tensors on the chip whose elements are put in another order.

numpy is the oracle of values, `support.packed` that of the memory, bit by bit; the program checker
says that nothing is unpacked which nothing has written.
"""

from __future__ import annotations

import numpy as np
import pytest

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
def test_packed_elements_arrive(source: str, out: str, axes: tuple[int, ...]) -> None:
    _, inputs, outputs = run(transposed(source, out, axes), SMALL)
    x, y = (np.asarray(each).view(np.uint8) for each in (inputs["x"], outputs["y"]))
    np.testing.assert_array_equal(y, x.transpose(axes))


def test_elements_whose_byte_crosses_rows_are_collected_as_before() -> None:
    graph = transposed("pred[16,9]{0,1:T(8,4)E(1)}", "pred[9,16]", (1, 0))
    _, inputs, outputs = run(graph, SMALL)
    np.testing.assert_array_equal(outputs["y"], inputs["x"].T)
