"""Has the table of the operations a row for each, and room on a narrow screen?"""

from __future__ import annotations

from typing import Any

import pytest

from report.summary.test_table import printed, summary
from systolic.report.summary.layers import layers_csv

FIRST = {
    "name": "h",
    "op": "matmul",
    "cycles": 600,
    "multiply_adds": 4800,
    "utilisation": 0.5,
    "bound": {"cycles": 300, "why": "moving vectors of pe_array"},
    "dram_bytes": 1024,
    "on_chip_bytes": 4096,
    "stalls": {"waiting for dma0": 70, "stalled by dma": 3},
}
FUSED = {
    "name": "r[b]",
    "op": "activation",
    "cycles": 0,
    "multiply_adds": 0,
    "utilisation": 0.0,
    "bound": {"cycles": 0, "why": "nothing need be busy"},
    "dram_bytes": 0,
    "on_chip_bytes": 0,
    "stalls": {},
}
LAST = {
    "name": "y",
    "op": "binary",
    "cycles": 200,
    "multiply_adds": 0,
    "utilisation": 0.0,
    "bound": {"cycles": 250, "why": "DRAM bandwidth"},
    "dram_bytes": 76,
    "on_chip_bytes": 9,
    "stalls": {"waiting for dma0": 4, "waiting for activation": 75},
}


def network(*operations: dict[str, Any]) -> dict[str, Any]:
    return summary(operations=list(operations), dram_bytes=1100, on_chip_bytes=4105)


REFUSED = {**LAST, "name": "z", "stalls": {"stalled by dma": 9, "waiting for fetch": 1}}
LEFT = (
    "  operation  op          cycles   array  bound  x bound  bound by                  ",
    "  h          matmul         600  50.0 %    300     2.0x  moving vectors of pe_array",
    "  r[b]       activation       0                                                    ",
    "  y          binary         200   0.0 %    250    0.80x  DRAM bandwidth            ",
    "  z          binary         200   0.0 %    250    0.80x  DRAM bandwidth            ",
    "  total                   1,000  30.0 %    800    1.25x  moving vectors            ",
)
RIGHT = (
    "  DRAM bytes  waits most for",
    "       1,024  dma0 70",
    "",
    "          76  activation 75",
    "          76  port of dma 9",
    "       1,100  activation 75",
)


def table(width: int) -> list[str]:
    lines = printed(network(FIRST, FUSED, LAST, REFUSED), width)
    first = next(n for n, line in enumerate(lines) if line.startswith("  operation"))
    return lines[first : lines.index("", first)]


def test_the_whole_table() -> None:
    """Of 1,000 cycles 600 are used by half: 30 %. The 74 cycles for dma0 are fewer than 75."""
    assert table(140) == [(a + b).rstrip() for a, b in zip(LEFT, RIGHT, strict=True)]


def test_a_narrow_screen_has_fewer_columns() -> None:
    rest = "x bound DRAM bytes waits most for"
    assert " ".join(table(100)[0].split()) == f"operation op cycles array bound {rest}"
    assert " ".join(table(80)[0].split()) == f"operation op cycles array {rest}"
    assert max(map(len, table(80))) <= 80
    assert len(table(80)) == len(table(140)) == 6


def test_a_table_wider_than_the_screen_is_not_cut() -> None:
    assert table(30) == table(80)


def test_one_operation_has_a_line_and_no_table() -> None:
    lines = printed(network(FIRST), 200)
    assert not any(line.startswith("  operation") for line in lines)
    assert any("h        matmul, under way for 600 cycles, 100.0 % above" in line for line in lines)


def test_the_file_has_a_column_for_each_reason() -> None:
    assert layers_csv(network({**FIRST, "name": 'h,"1"'}, LAST)).splitlines() == [
        "name,op,cycles,multiply_adds,utilisation,bound_cycles,bound_why,dram_bytes,on_chip_bytes,"
        "stalled by dma,waiting for activation,waiting for dma0",
        '"h,""1""",matmul,600,4800,0.5,300,moving vectors of pe_array,1024,4096,3,0,70',
        "y,binary,200,0,0.0,250,DRAM bandwidth,76,9,0,75,4",
    ]


@pytest.mark.parametrize("width", [80, 140])
def test_names_are_no_markup(width: int) -> None:
    assert any(line.startswith("  r[b]") for line in table(width))
