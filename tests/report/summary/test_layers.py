"""Has the table of the operations a row for each, and room on a narrow screen?"""

from __future__ import annotations

import re
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
    "streamed_cycles": 400,
    "turned_cycles": 100,
    "lost": {"transposes": 100, "idle": 200},
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
    "streamed_cycles": 0,
    "turned_cycles": 0,
    "lost": {},
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
    "streamed_cycles": 0,
    "turned_cycles": 0,
    "lost": {"loading": 90, "other operations": 110},
}


def network(*operations: dict[str, Any]) -> dict[str, Any]:
    return summary(
        operations=list(operations), dram_bytes=1100, on_chip_bytes=4105, streamed_cycles=400,
        turned_cycles=100, lost={"transposes": 100, "idle": 600},
    )  # fmt: skip


REFUSED = {**LAST, "name": "z", "stalls": {"stalled by dma": 9, "waiting for fetch": 1}}
LEFT = (
    "  operation  op          cycles  utilisation   turns  lost most to            ",
    "  h          matmul         600       50.0 %  25.0 %  idle 33.3 %             ",
    "  r[b]       activation       0                                               ",
    "  y          binary         200        0.0 %          other operations 55.0 % ",
    "  z          binary         200        0.0 %          other operations 55.0 % ",
    "  total                   1,000       30.0 %  25.0 %  idle 60.0 %             ",
)
RIGHT = (
    " bound  x bound  bound by                    DRAM bytes  waits most for",
    "   300     2.0x  moving vectors of pe_array       1,024  dma0 70",
    "",
    "   250    0.80x  DRAM bandwidth                      76  activation 75",
    "   250    0.80x  DRAM bandwidth                      76  port of dma 9",
    "   800    1.25x  moving vectors                   1,100  activation 75",
)


def table(width: int) -> list[str]:
    lines = printed(network(FIRST, FUSED, LAST, REFUSED), width)
    first = next(n for n, line in enumerate(lines) if line.startswith("  operation"))
    return lines[first : lines.index("", first)]


def test_the_whole_table() -> None:
    """Of 1,000 cycles 600 are used by half: 30 %. The 74 cycles for dma0 are fewer than 75."""
    assert table(160) == [(a + b).rstrip() for a, b in zip(LEFT, RIGHT, strict=True)]


def test_a_narrow_screen_has_fewer_columns() -> None:
    first = "operation op cycles utilisation"
    assert " ".join(table(140)[0].split()) == (
        f"{first} turns lost most to bound x bound DRAM bytes waits most for"
    )
    assert " ".join(table(100)[0].split()) == f"{first} turns lost most to x bound DRAM bytes"
    assert " ".join(table(80)[0].split()) == f"{first} lost most to x bound"
    assert max(map(len, table(80))) <= 80
    assert len(table(80)) == len(table(160)) == 6


def test_an_operation_that_uses_enough_has_lost_nothing_worth_a_word() -> None:
    lines = printed(network({**FIRST, "utilisation": 0.8}, {**LAST, "utilisation": 0.79}), 160)
    (first,), (last,) = ([each for each in lines if each.startswith(f"  {n} ")] for n in "hy")
    assert "idle" not in first
    assert "other operations 55.0 %" in last


@pytest.mark.parametrize("width", range(42, 200, 7))
def test_the_table_is_as_wide_as_the_screen_allows(width: int) -> None:
    assert max(map(len, table(width))) <= width


def test_on_a_narrow_screen_long_names_are_shortened_and_numbers_are_not() -> None:
    run = network({**FIRST, "name": "a_projection_of_a_long_name"}, LAST)
    lines = printed(run, 42)
    first = next(n for n, line in enumerate(lines) if line.startswith("  operation"))
    assert max(map(len, lines[first : first + 4])) <= 42
    assert re.fullmatch(r"  a_pro\.\.\.\w+ +600 +50\.0 % +2\.0x", lines[first + 1]), lines[
        first + 1
    ]


def test_a_table_wider_than_the_screen_is_not_cut() -> None:
    assert table(20) == table(30)


def test_one_operation_has_a_line_and_no_table() -> None:
    lines = printed(network(FIRST), 200)
    assert not any(line.startswith("  operation") for line in lines)
    assert any("h        matmul, under way for 600 cycles, 100.0 % above" in line for line in lines)


def test_the_file_has_a_column_for_each_reason() -> None:
    first, last = divided({**FIRST, "name": 'h,"1"'}, 700, 0.625), divided(LAST, 300, 0.0)
    assert layers_csv(network(first, last)).splitlines() == [
        "name,op,cycles,multiply_adds,utilisation,bound_cycles,bound_why,dram_bytes,on_chip_bytes,"
        "streamed_cycles,turned_cycles,array_cycles,array_utilisation,stalled by dma,"
        "waiting for activation,waiting for dma0,lost to idle,lost to loading,"
        "lost to other operations,lost to transposes",
        '"h,""1""",matmul,600,4800,0.5,300,moving vectors of pe_array,1024,4096,400,100,700,0.625,'
        "3,0,70,200,0,0,100",
        "y,binary,200,0,0.0,250,DRAM bandwidth,76,9,0,0,300,0.0,0,75,4,0,90,110,0",
    ]


def divided(operation: dict[str, Any], cycles: int, utilisation: float) -> dict[str, Any]:
    """Return the record of an operation with the cycles in which the array is at it."""
    lost = {"waiting for dma0": cycles // 4, "loading": cycles // 5} if cycles else {}
    return {**operation, "array": {"cycles": cycles, "utilisation": utilisation, "lost": lost}}


WHOLE = (
    "  operation  op          cycles  array time  utilisation   turns  lost most to             "
    "bound  x bound  bound by                    DRAM bytes  waits most for",
    "  h          matmul         600         700       42.9 %  25.0 %  waiting for dma0 25.0 %  "
    "  300     2.3x  moving vectors of pe_array       1,024  dma0 70",
    "  r[b]       activation       0           0",
    "  y          binary         200         300        0.0 %          waiting for dma0 25.0 %  "
    "  250           DRAM bandwidth                      76  activation 75",
    "  total                   1,000       1,000       30.0 %  25.0 %  idle 60.0 %              "
    "  800    1.25x  moving vectors                   1,100  activation 75",
)


def test_the_array_s_time_is_divided_among_operations() -> None:
    """What is lost, and how far the bound is, is said of the cycles in which the array is at an
    operation; only products are held against their bounds."""
    every = divided(FIRST, 700, 0.429), divided(FUSED, 0, 0.0), divided(LAST, 300, 0.0)
    lines = printed(network(*every), 180)
    first = next(n for n, line in enumerate(lines) if line.startswith("  operation"))
    assert lines[first : first + 5] == list(WHOLE)
    narrow = printed(network(*every), 80)
    heads = next(line for line in narrow if line.startswith("  operation"))
    assert " ".join(heads.split()) == "operation array time utilisation lost most to x bound"


@pytest.mark.parametrize(("cycles", "told"), [(4_000, True), (4_001, False)])
def test_what_is_lost_in_a_thousandth_of_the_run_is_not_worth_a_word(cycles, told) -> None:
    run = {**network(divided(FIRST, 998, 0.3), divided(LAST, 4, 0.0)), "cycles": cycles}
    (last,) = (line for line in printed(run, 180) if line.startswith("  y "))
    assert ("waiting for dma0 25.0 %" in last) is told


@pytest.mark.parametrize("width", [80, 140])
def test_names_are_no_markup(width: int) -> None:
    assert any(line.startswith("  r[b]") for line in table(width))
