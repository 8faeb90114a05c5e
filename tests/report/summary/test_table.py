"""Can a person read the table: everything there, within 80 columns, in plain ASCII if need be?"""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from systolic.report.summary.table import (
    arrays_text,
    bar,
    bound_text,
    layouts_text,
    print_summary,
    reasons,
    values_text,
)
from systolic.report.summary.wording import (
    number,
    percent,
    plural,
    ratio_text,
    shorten,
    time_text,
    value_text,
)


def summary(**changes: Any) -> dict[str, Any]:
    idle = {"total": 1000, "labels": {"idle": 1000}}
    array = {"streaming": 400, "stalled by dma": 100, "loading": 200, "idle": 300}
    return {
        "run": "fig4",
        "chip": "patent",
        "engine": "event",
        "cycles": 1000,
        "time_ns": 1250.0,
        "blocks": 1,
        "sub_blocks": 2,
        "instructions": {"Copy": 1200, "MatMul": 2},
        "units": {
            "pe_array": {"total": 1000, "labels": array},
            "activation": {"total": 1000, "labels": {"streaming": 1, "idle": 999}},
            "pooling": idle,
            "dma0": idle,
            "dma1": idle,
            "dma2": idle,
        },
        "ports": {},
        "stalls": [
            {
                "unit": "pe_array",
                "buffer": "state_buffer",
                "bank": 3,
                "direction": "read",
                "winner": "dma",
                "cycles": 100,
            }
        ],
        "values": {"checked": True, "equal": True, "max_abs_error": 0.0, "differs_from_numpy": 0},
        "bound": {"cycles": 800, "why": "moving vectors"},
    } | changes


def printed(content: dict[str, Any], width: int = 80, encoding: str = "utf-8") -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_summary(content, Console(file=file, width=width, highlight=False))
    file.seek(0)
    return [line.rstrip() for line in file.read().splitlines()]


def test_the_whole_table() -> None:
    assert printed(summary()) == [
        "",
        "  fig4  on patent, event engine",
        "",
        "  length   1,000 cycles, 1.25 us",
        "  bound    800 cycles (moving vectors): the run is 200 (25.0 %) above it",
        "  work     1 block, 2 sub-blocks",
        "  program  1,200 Copy, 2 MatMul",
        "",
        "  unit          busy, and why not  cycles   share",
        "  pe_array      streaming             400  40.0 %  ██████▍",
        "                idle                  300  30.0 %  ████▊",
        "                loading               200  20.0 %  ███▎",
        "                stalled by dma        100  10.0 %  █▋",
        "  activation    streaming               1   0.1 %",
        "                idle                  999  99.9 %  ████████████████",
        "  pooling       idle",
        "  dma0 to dma2  idle",
        "",
        "  refused port       bank  held back  in favour of  cycles",
        "  state_buffer read  3     pe_array   dma              100",
        "",
        "  result equals numpy: yes",
        "",
    ]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_fits_the_terminal(width: int) -> None:
    assert max(map(len, printed(summary(), width))) <= width


def test_plain_terminals_get_plain_characters() -> None:
    text = "\n".join(printed(summary(), encoding="ascii"))
    assert text.isascii()
    assert "######" in text


def test_no_stalls_no_table_of_stalls() -> None:
    assert not any("refused" in line for line in printed(summary(stalls=[])))


def test_layouts_are_one_line_if_they_are_known() -> None:
    layouts = {"source": "f32[4,8]{1,0}", "result": "f32[8,4]{1,0}"}
    tiled = layouts | {"blocks": "f32[4,8]{1,0:T(4,4)}"}
    assert not any("layout" in line for line in printed(summary()))
    (line,) = [line for line in printed(summary(layouts=tiled)) if "layout" in line]
    assert line == "  layout   f32[4,8]{1,0} to f32[8,4]{1,0}, blocks f32[4,8]{1,0:T(4,4)}"
    assert layouts_text(layouts) == "f32[4,8]{1,0} to f32[8,4]{1,0}"


def test_busy_comes_first_then_the_costliest() -> None:
    unit = {"labels": {"idle": 5, "streaming": 1, "loading": 5, "draining": 0}}
    assert reasons(unit) == [("streaming", 1), ("idle", 5), ("loading", 5)]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"checked": False}, "result not checked"),
        ({"checked": True, "equal": True}, "result equals numpy: yes"),
        (
            {"checked": True, "equal": True, "max_abs_error": 0.00123},
            "result equals numpy: yes; from float64 it is at most 0.0012 away",
        ),
        (
            {"checked": True, "equal": False, "max_abs_error": 2.5},
            "result equals the reference: NO (largest absolute error 2.5)",
        ),
    ],
)
def test_values_in_one_sentence(values: dict[str, Any], text: str) -> None:
    found, good = values_text(values)
    assert found == text
    assert good == ("NO" not in text)


def test_elements_that_differ_are_counted_and_explained() -> None:
    values = {"checked": True, "equal": True, "differs_from_numpy": 3}
    text, good = values_text(values)
    assert good
    assert text.startswith("result equals numpy: in all but 3 elements")
    assert "-0.0 into +0.0" in text
    assert "NaN" in text


@pytest.mark.parametrize(
    ("cycles", "best", "text"),
    [
        (19, 19, "19 cycles (x): reached"),
        (20, 16, "16 cycles (x): the run is 4 (25.0 %) above it"),
        (5, 0, "0 cycles (x)"),
    ],
)
def test_distance_to_the_bound(cycles: int, best: int, text: str) -> None:
    assert bound_text({"cycles": cycles, "bound": {"cycles": best, "why": "x"}}) == text


def test_bars_and_words() -> None:
    assert bar(0.0) == ""
    assert bar(1.0) == "█" * 16
    assert bar(0.5, plain=True) == "########"
    assert number(1234567) == "1,234,567"
    assert [plural(n, "block") for n in (0, 1, 2)] == ["0 blocks", "1 block", "2 blocks"]
    assert [percent(n, 10000) for n in (0, 1, 5000, 9999, 10000)] == [
        "0.0 %",
        "<0.1 %",
        "50.0 %",
        ">99.9 %",
        "100.0 %",
    ]
    assert [time_text(t) for t in (0.0, 19.0, 1250.0, 2.5e6, 3e9)] == [
        "0 ns",
        "19 ns",
        "1.25 us",
        "2.5 ms",
        "3 s",
    ]
    assert [ratio_text(r) for r in (0.973, 3.21, 41.2, 1729.4)] == [
        "0.97x",
        "3.2x",
        "41x",
        "1,729x",
    ]


def test_values_are_short_but_not_wrong() -> None:
    assert [shorten(t) for t in ("1", "-0", "nan", "8192", "0.1234567", "123456789")] == [
        "1",
        "-0",
        "nan",
        "8192",
        "0.123",
        "1.2e8",
    ]
    assert value_text(1.5) == "1.5"


def test_of_many_arrays_the_first_are_named_and_all_are_counted() -> None:
    arrays = {f"w{n}": {"type": "f32", "shape": [n, 1_000]} for n in range(1, 9)}
    assert arrays_text(arrays) == ", ".join(f"w{n} f32[{n},1000]" for n in range(1, 9))
    arrays["scale"] = {"type": "bf16", "shape": []}  # a scalar is one element
    assert arrays_text(arrays) == (
        "w1 f32[1,1000], w2 f32[2,1000], w3 f32[3,1000], w4 f32[4,1000], and 5 more: "
        "36,001 elements together"
    )
