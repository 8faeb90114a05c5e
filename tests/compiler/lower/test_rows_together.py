"""Is the value right? Tensors without tiles of which a partition has several rows of a dimension.

numpy is the oracle of values. `support.packed.run` has both engines leave the same trace and the
same memory, and the program checker look at every dependency.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import systolic
from compiler.lower.test_digit_moves import reshaped
from compiler.place.test_given_places import pasted
from support.packed import run
from systolic.compiler.ir.on_chip.chip_places import LANE, ChipPlaces, places_of, row_groups
from systolic.compiler.lower.moves.digit_moves import in_rows
from systolic.compiler.lower.moves.rows_together import places_beside, rows_of_tiles
from systolic.config import load_chip
from systolic.layout import Shape
from systolic.shipped import CHIPS
from systolic.workload import Graph, GraphBuilder, TransposeAttributes


def moved(graph: Graph, values: np.ndarray) -> np.ndarray:
    (op,) = graph.operations
    if op.kind == "reshape":
        return values.reshape(graph.shape("y").dims)
    return values.transpose(op.attributes_as(TransposeAttributes).axes)


def relaid(source: str, out: str) -> Graph:
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", source)
    builder.add("relayout", ("x",), out, name="y")
    return builder.graph()


V3 = load_chip(CHIPS / "neuroncore_v3.toml")

HEADS = "u8[4,12,128,128]{3,2,1,0:T(8,128)(4,1)}", "u8[4,12,128,128]"
MASKS = "pred[2048,1024]{0,1:T(8,128)(4,1)}", "pred[256,8,1024]{1,0,2}"


def tiled(text: str) -> ChipPlaces:
    found = places_of(Shape.parse(text), V3.state_buffer.partitions)
    assert found is not None
    return found


def free(text: str) -> list[ChipPlaces]:
    shape = Shape.parse(text)
    return [*in_rows(V3, shape, row_groups(shape))]


def test_rows_end_where_the_other_tensor_has_a_digit() -> None:
    """Four rows of a tile share a partition, so four rows may lie there one behind the other."""
    before, after = places_beside(V3, [tiled(HEADS[0])], free(HEADS[1]), range(4), (False, True))
    assert not before
    assert {str(places.shape).split(":")[1] for places in after} == {
        "T(*,512,128)(4,128)}",
        "T(128,128)(4,128)}",
    }


def test_the_source_may_lie_so_as_well() -> None:
    before, after = places_beside(V3, free(MASKS[1]), [tiled(MASKS[0])], None, (True, False))
    assert not after
    assert "T(512,*,2048)(4,2048)}" in {str(places.shape).split(":")[1] for places in before}


def test_the_most_minor_dimension_is_in_every_row() -> None:
    """A bound counts on it: neighbours along it lie side by side on the chip."""
    columns = tiled("s8[256,512]{0,1:T(8,128)(4,1)}")
    _, after = places_beside(V3, [columns], free("s8[256,512]"), range(2), (False, True))
    assert after
    assert all(int(places.offsets[1].max()) < LANE for places in after)


def test_as_many_whole_lines_as_fit_lie_on_the_partitions() -> None:
    """128 rows would end within the fifth line of 28."""
    found = {str(places.shape).split(":")[1]: places for places in free("bf16[8,28,28,128]")}
    assert found["T(*,112,128)}"].rows == 112
    assert "T(*,128,128)}" not in found


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("u8[4,12,128,128]{3,2,1,0:T(*,512,128)(4,128)}", (1, 2)),
        ("u8[4,12,128,128]{3,2,1,0:T(*,512,64)(4,64)}", ()),
        ("u8[4,12,128,128]{3,2,1,0:T(*,128,128)}", (1, 2)),
        ("u8[4,12,128,128]{3,2,1,0:T(128,*,16384)}", (1,)),
        ("u8[4,12,128,128]{3,2,1,0:T(*,128,64)}", ()),
        ("u8[4,12,128,128]{3,2,1,0:T(8,128)(4,1)}", ()),
        ("bf16[8,28,28,128]{3,2,1,0:T(*,112,128)}", (1, 2)),
    ],
)
def test_only_tiles_of_whole_rows_are_known_by_their_text(text: str, rows: tuple[int, ...]) -> None:
    assert rows_of_tiles(Shape.parse(text)) == rows


SMALL = [
    relaid("u8[4,8,128,64]{3,2,1,0:T(8,128)(4,1)}", "u8[4,8,128,64]"),
    relaid("u8[1,8,512,128]{1,2,3,0}", "u8[1,8,512,128]{3,2,1,0:T(8,128)(4,1)}"),
    reshaped("s8[256,1024]{0,1:T(8,128)(4,1)}", "s8[32,8,1024]{1,0,2}"),
]


@pytest.mark.parametrize("graph", SMALL)
@pytest.mark.parametrize("chip", ["neuroncore_v2", "neuroncore_v3"])
def test_all_elements_arrive_on_both_engines(graph: Graph, chip: str) -> None:
    compiled, inputs, outputs = run(graph, load_chip(CHIPS / f"{chip}.toml"))
    homes = [str(home.shape) for home in compiled.layers.homes]
    assert any(re.search(r"\)\(\d+,(?!1\))", text) for text in homes)
    bits = [values.view(f"u{values.itemsize}") for values in (inputs["x"], outputs["y"])]
    same = graph.operations[0].kind == "relayout"
    np.testing.assert_array_equal(bits[1], bits[0] if same else moved(graph, bits[0]))


@pytest.mark.parametrize("graph", SMALL)
def test_what_the_compiler_chose_gives_the_same_run_when_pasted_back(graph: Graph) -> None:
    before, after, places = pasted(graph, V3)
    assert (after, places) == (before, 2)


def test_elements_that_stay_in_their_lanes_are_copied_side_by_side() -> None:
    """In words that the array turns twice it took 21,168 cycles."""
    result = systolic.run(reshaped(*MASKS), "neuroncore_v3", values=False)
    assert result.cycles == 16_828
    assert set(result.program.count()) == {"Copy"}
