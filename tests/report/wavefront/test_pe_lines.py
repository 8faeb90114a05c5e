"""Rows, columns and diagonals of the array over time, against the grid cycle by cycle."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from support.chips import ideal_chip
from support.runs import run_transpose
from systolic.report.wavefront.bands import CycleAxis
from systolic.report.wavefront.manner import BYS, By
from systolic.report.wavefront.moments import moments
from systolic.report.wavefront.panels import panels
from systolic.report.wavefront.pe_bands import line_band, pe_band
from systolic.report.wavefront.pe_lines import PeLines
from systolic.trace.records import Trace

VARIANTS: list[tuple[int, int, dict[str, Any]]] = [
    (4, 4, {}),
    (1, 1, {}),
    (2, 5, {}),
    (5, 3, {"pe_array": {"weight_path": "top"}}),
    (4, 6, {"pe_array": {"hop": [2, 1], "cell": [2, 3], "entry_cycles": 2}}),
    (3, 2, {"pe_array": {"cycles_per_vector": {"f32": 3}}}),
]
PHASES = ("stream", "next", "drain")
every_line = pytest.mark.parametrize("by", BYS)
every_array = pytest.mark.parametrize(("rows", "cols", "tables"), VARIANTS)


def run(rows: int, cols: int, **tables: Any) -> Trace:
    """Return a run whose values have both signs."""
    chip = ideal_chip(rows, cols, **tables)
    data = np.arange(2 * rows * cols, dtype=np.float32).reshape(2 * rows, cols) - rows * cols
    return run_transpose(chip, f"f32[{2 * rows},{cols}]", data, grid=True)[1].trace


def pes_of(by: By, rows: int, cols: int) -> list[list[tuple[int, int]]]:
    """Return the PEs of each line, told one by one."""
    if by == "row":
        return [[(r, c) for c in range(cols)] for r in range(rows)]
    if by == "column":
        return [[(r, c) for r in range(rows)] for c in range(cols)]
    return [[(r, d - r) for r in range(rows) if 0 <= d - r < cols] for d in range(rows + cols - 1)]


@every_line
@every_array
def test_a_line_is_the_share_of_its_pes(by: By, rows: int, cols: int, tables: Any) -> None:
    trace = run(rows, cols, **tables)
    axis = CycleAxis(0, trace.cycles())
    band = line_band(trace, axis, PeLines.of(by, rows, cols), "activity")
    lines = pes_of(by, rows, cols)
    assert band.lines == len(lines)
    total = sum(band.layers[phase] for phase in PHASES if phase in band.layers)
    for cycle in range(axis.stop):
        valid = trace.grid.at(cycle).valid
        shares = [np.mean([valid[pe] for pe in line]) for line in lines]
        np.testing.assert_allclose(total[:, cycle], shares, err_msg=f"cycle {cycle}")


@every_line
@every_array
def test_phases_of_a_line_are_those_of_its_pes(by: By, rows: int, cols: int, tables: Any) -> None:
    trace = run(rows, cols, **tables)
    axis = CycleAxis(0, trace.cycles())
    band = line_band(trace, axis, PeLines.of(by, rows, cols), "activity")
    single = pe_band(trace, axis, values=False)
    for phase in PHASES:
        pes = single.layers.get(phase, np.zeros((rows * cols, axis.columns)))
        for line, members in enumerate(pes_of(by, rows, cols)):
            share = np.mean([pes[r * cols + c] for r, c in members], axis=0)
            np.testing.assert_allclose(band.layers.get(phase, np.zeros_like(share))[line], share)


@every_line
@every_array
def test_numbers_and_values_of_a_line(by: By, rows: int, cols: int, tables: Any) -> None:
    """The vector is the last that came; the value is the sum of the largest magnitude."""
    trace = run(rows, cols, **tables)
    axis, lines = CycleAxis(0, trace.cycles()), PeLines.of(by, rows, cols)
    numbered, weighed = (line_band(trace, axis, lines, c) for c in ("vector", "value"))
    came: dict[int, tuple[int, int]] = {}
    seen = 0
    for cycle in range(axis.stop):
        state, (matmul, vector) = trace.grid.at(cycle), trace.grid.vectors(cycle)
        for line, members in enumerate(pes_of(by, rows, cols)):
            inside = [pe for pe in members if state.valid[pe]]
            if not inside:
                continue
            now = max((int(matmul[pe]), int(vector[pe])) for pe in inside)
            came[line] = max(came.get(line, (0, 0)), now)
            planes = [numbered.numbers[p][line, cycle] for p in PHASES if p in numbered.numbers]
            assert {int(v) for v in planes if not np.isnan(v)} == {came[line][1]}
            largest = max(abs(float(state.sum[pe])) for pe in inside)
            planes = [weighed.numbers[p][line, cycle] for p in PHASES if p in weighed.numbers]
            assert {abs(v) for v in planes if not np.isnan(v)} == {largest}
            seen += 1
    assert seen >= rows * cols


@every_line
def test_single_pes_stand_in_the_order_of_their_lines(by: By) -> None:
    trace = run(3, 4)
    axis = CycleAxis(0, trace.cycles())
    band = pe_band(trace, axis, True, PeLines.of(by, 3, 4), "vector")
    order = [pe for line in pes_of(by, 3, 4) for pe in line]
    assert [len(group.lines) for group in band.groups] == [len(x) for x in pes_of(by, 3, 4)]
    for cycle in range(axis.stop):
        vector = trace.grid.vectors(cycle)[1]
        for place, pe in enumerate(order):
            found = [
                p[place, cycle] for p in band.numbers.values() if not np.isnan(p[place, cycle])
            ]
            assert found == ([vector[pe]] if vector[pe] >= 0 else [])


def test_the_state_buffer_beside_the_grid() -> None:
    """4 x 4, identity streams: what each partition gives or takes in the cycle of each panel."""
    chip = ideal_chip(4, 4)
    data = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    kinds = ("psum_write", "read", "write")
    trace = run_transpose(chip, "f32[4,4]", data, grid=True, kinds=kinds)[1].trace
    when = moments(chip, trace)
    assert when is not None
    told = {}
    for panel in panels(chip, trace, when):
        told[panel.cycle] = [
            {line: text for (line, column), text in texts.items() if column == panel.column}
            for band in panel.state_buffer
            for texts in band.texts.values()
        ]
    assert [words for words in told[3] if words] == [{0: "4", 1: "8", 2: "12", 3: "16"}]
    assert [words for words in told[5] if words] == [{0: "0", 1: "1", 2: "0", 3: "0"}]
    assert [words for words in told[15] if words] == [{0: "1", 1: "2", 2: "3", 3: "4"}]
    assert [words for words in told[11] if words] == []
    assert set(get_args(By)) == set(BYS)
