"""Engines that scan, search, pick and move whole rows: instructions, and values bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import systolic
from support.chips import able_chip, ideal_chip
from systolic.errors import WorkloadError
from systolic.hw.spec import Chip
from systolic.isa.instruction import (
    CopyDynamicDst,
    CopyDynamicSrc,
    FindIndex8,
    LocalGather,
    Max8,
    OnEngine,
    Scan,
)
from systolic.workload import GraphBuilder

CHIP = able_chip(16, 16, pe_array={"pass_through": {"f32": 1}})
ROWS, PLACES = 40, 24
"""Three tiles of rows, the last with fewer."""
Arrays = Sequence[np.ndarray]


def done(
    kind: str, arrays: Arrays, out: str, chip: Chip = CHIP, home: str = "dram", **given: Any
) -> tuple[np.ndarray, set[type[OnEngine]]]:
    """Return the result of an operation, and which instructions of engines made it."""
    builder, words = GraphBuilder(home), {"float32": "f32", "int32": "s32"}
    names = [
        builder.tensor(f"x{n}", f"{words[str(each.dtype)]}[{','.join(map(str, each.shape))}]")
        for n, each in enumerate(arrays)
    ]
    builder.add(kind, names, out, name="y", **given)
    data = dict(zip(names, arrays, strict=True))
    run, stepped = (
        systolic.run(builder.graph(), chip, data, engine=each) for each in ("event", "register")
    )
    assert run.trace.times == stepped.trace.times
    assert run.outputs["y"].tobytes() == stepped.outputs["y"].tobytes()
    assert run.compiled is not None
    assert run.summary["values"]["equal"]
    return run.outputs["y"], {type(each) for each in run.compiled.program.instructions}


def source(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((ROWS, PLACES)).astype(np.float32)


@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize("from_end", [False, True])
def test_a_scan_adds_one_after_another(home: str, from_end: bool) -> None:
    x = source()
    found, used = done("cumulative", [x], f"f32[{ROWS},{PLACES}]", home=home, from_end=from_end)
    way = slice(None, None, -1 if from_end else 1)
    assert found.tobytes() == np.add.accumulate(x[:, way], axis=1)[:, way].tobytes()
    assert Scan in used


@pytest.mark.parametrize(
    "chip",
    [
        pytest.param(able_chip(8, 8, state_buffer={"bytes_per_partition": 256}), id="small banks"),
        pytest.param(ideal_chip(8, 8), id="no such engine"),
    ],
)
def test_what_is_not_scanned_is_added_in_steps(chip: Chip) -> None:
    found, used = done("cumulative", [source()[:8, :10]], "f32[8,10]", chip)
    assert Scan not in used
    assert np.allclose(found, np.cumsum(source()[:8, :10], axis=1), atol=1e-5)


def test_searches_find_the_first_of_equals_and_each_nan() -> None:
    x = np.round(source()).clip(-2, 2)
    x[0, [3, 9]], x[1, :], x[2, 5] = np.nan, np.nan, np.inf
    rows = [[(n, -v if v == v else -np.inf, v == v) for n, v in enumerate(row)] for row in x]
    wanted = np.array([[n for n, *_ in sorted(r, key=lambda e: (e[2], e[1], e[0]))] for r in rows])
    found, used = done("top_k", [x], f"s32[{ROWS},8]", k=8, gives="indices")
    assert np.array_equal(found, wanted[:, :8])
    assert {Max8, FindIndex8} <= used
    found, used = done("argmax", [x], f"s32[{ROWS}]")
    assert np.array_equal(found, wanted[:, 0])
    assert {Max8, FindIndex8} <= used


def test_more_than_eight_are_not_searched() -> None:
    found, used = done("top_k", [source()], f"f32[{ROWS},9]", k=9)
    assert np.array_equal(found, -np.sort(-source(), axis=1)[:, :9])
    assert not {Max8, FindIndex8} & used


def test_a_pick_keeps_every_bit_and_clamps() -> None:
    x, n = source(), np.array([5, -3, 5, 1000, 0, 23, 7], np.int32)
    x[3, 5], x[4, 6] = np.nan, -0.0
    found, used = done("gather", [x, n], f"f32[{ROWS},7]", axis=1)
    assert found.tobytes() == x[:, n.clip(0, PLACES - 1)].tobytes()
    assert LocalGather in used


@pytest.mark.parametrize("home", ["dram", "state_buffer"])
@pytest.mark.parametrize("start", [(-5, 3), (0, 0), (20, 21), (99, 99)])
def test_moves_from_and_to_a_number(home: str, start: tuple[int, int]) -> None:
    x, n = source(), np.array(start, np.int32)
    x[3, 5], x[21, 6] = np.nan, -0.0
    row, col = (min(max(a, 0), size - b) for a, size, b in zip(start, x.shape, (9, 4), strict=True))
    box = np.s_[row : row + 9, col : col + 4]
    found, used = done("dynamic_slice", [x, n], "f32[9,4]", home=home, sizes=[9, 4])
    assert found.tobytes() == x[box].tobytes()
    assert CopyDynamicSrc in used
    update = source(1)[:9, :4].copy()
    out = f"f32[{ROWS},{PLACES}]"
    found, used = done("dynamic_update_slice", [x, update, n], out, home=home)
    wanted = x.copy()
    wanted[box] = update
    assert found.tobytes() == wanted.tobytes()
    assert CopyDynamicDst in used


def test_a_graph_cannot_name_a_part() -> None:
    builder = GraphBuilder("dram")
    x = builder.tensor("x", "f32[4,9]")
    with pytest.raises(WorkloadError, match="find"):
        builder.add("find", [x, x], "s32[4,8]", axis=1)
