"""Does the summary say what was observed, and do its parts add up?"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.blocks import block_images, block_program
from support.chips import ideal_chip
from systolic.errors import SimulationError
from systolic.hw.spec import Chip
from systolic.machine import simulate
from systolic.report.summary.summarize import summarize
from systolic.trace.labels import LabelInterval
from systolic.trace.records import Stall, Trace


@pytest.fixture
def chip() -> Chip:
    return ideal_chip(4, 4)


@pytest.fixture
def trace(chip: Chip) -> Trace:
    block = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    return simulate(chip, block_program(4, 4), block_images(block)).trace


LAYOUTS = {"source": "f32[4,4]{1,0}", "result": "f32[4,4]{1,0}", "blocks": "f32[4,4]{1,0:T(4,4)}"}


def summary_of(chip: Chip, trace: Trace, **more: Any) -> dict:
    return summarize(
        run="fig3",
        chip=chip,
        engine="event",
        trace=trace,
        instructions={"MatMul": 1, "Copy": 1},
        blocks=1,
        sub_blocks=1,
        values={"checked": True, "equal": True, "max_abs_error": 0.0},
        bound={"cycles": 16, "why": "moving vectors"},
        **more,
    )


def test_keys_and_order(chip: Chip, trace: Trace) -> None:
    assert list(summary_of(chip, trace)) == [
        "run",
        "chip",
        "engine",
        "cycles",
        "time_ns",
        "blocks",
        "sub_blocks",
        "instructions",
        "units",
        "ports",
        "stalls",
        "transfers",
        "values",
        "bound",
    ]


def test_layouts_are_optional(chip: Chip, trace: Trace) -> None:
    assert "layouts" not in summary_of(chip, trace)
    assert summary_of(chip, trace, layouts=LAYOUTS)["layouts"] == LAYOUTS


def test_is_plain_json(chip: Chip, trace: Trace) -> None:
    summary = summary_of(chip, trace)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_labels_sum_to_the_length_of_the_run(chip: Chip, trace: Trace) -> None:
    summary = summary_of(chip, trace)
    assert summary["cycles"] == 19
    for unit in summary["units"].values():
        assert sum(unit["labels"].values()) == unit["total"] == 19


def test_time_follows_the_clock(chip: Chip, trace: Trace) -> None:
    slow = ideal_chip(4, 4, clock={"core": 250})
    assert summary_of(chip, trace)["time_ns"] == 19.0
    assert summary_of(slow, trace)["time_ns"] == 76.0


def test_ports_in_use(chip: Chip, trace: Trace) -> None:
    ports = summary_of(chip, trace)["ports"]
    assert ports["result_buffer"] == {"0": {"read": 4, "write": 7}}
    assert set(ports) == {"state_buffer", "result_buffer"}


def test_stalls_are_summed_costliest_first(chip: Chip, trace: Trace) -> None:
    stalls = (
        Stall(3, "activation", 2, 1, "state_buffer", 0, "read", "moving"),
        Stall(5, "pe_array", 1, 2, "state_buffer", 1, "read", "dma"),
        Stall(9, "pe_array", 1, 3, "state_buffer", 1, "read", "dma"),
    )
    found = summary_of(chip, replace(trace, stalls=stalls))["stalls"]
    assert found == [
        {
            "unit": "pe_array",
            "buffer": "state_buffer",
            "bank": 1,
            "direction": "read",
            "winner": "dma",
            "cycles": 5,
        },
        {
            "unit": "activation",
            "buffer": "state_buffer",
            "bank": 0,
            "direction": "read",
            "winner": "moving",
            "cycles": 1,
        },
    ]


def test_a_run_whose_labels_do_not_sum_is_refused(chip: Chip, trace: Trace) -> None:
    labels = trace.labels | {"pooling": (LabelInterval(0, 18, "idle"),)}
    with pytest.raises(
        SimulationError, match=r"^pooling: labels sum to 18 cycles, but the run has 19$"
    ):
        summary_of(chip, replace(trace, labels=labels))
