"""Does the summary count the transfers, and can a person read the counts?"""

from __future__ import annotations

import io

from rich.console import Console

from support.blocks import state
from support.chips import ideal_chip
from systolic.isa import Access, Buffer, DmaCopy, Program
from systolic.machine import simulate
from systolic.report.summary.summarize import summarize
from systolic.report.summary.table import print_summary
from systolic.report.summary.transfers import (
    bursts_text,
    channels_text,
    runs_text,
    transfer_record,
    waits_text,
)
from systolic.trace.transfers import ChannelCounts, QueueWaits, Transfers

PARTS = {
    "channels": 2,
    "banks": 2,
    "row_bytes": 64,
    "burst_bytes": 16,
    "interleave_bytes": 64,
    "activate_cycles": 3,
    "precharge_cycles": 2,
}


def dram(start, *pattern):
    return Access(Buffer.DRAM, "f32", 0, 1, start, pattern)


def summary_of(organisation, *copies):
    sizes = {"size_bytes": 1 << 16, "bytes_per_cycle": 8, "organisation": organisation}
    chip = ideal_chip(4, 4, dram=sizes)
    trace = simulate(chip, Program("moved", copies), values=False).trace
    return summarize(
        run="moved",
        chip=chip,
        engine="event",
        trace=trace,
        instructions={},
        blocks=0,
        sub_blocks=0,
        values={"checked": False},
        bound={"cycles": 0, "why": ""},
    )


def test_what_the_summary_counts():
    """16 elements at once, and three alone, the last two in one row of the other channel."""
    found = summary_of(
        PARTS,
        DmaCopy(dma_queue=0, source=dram(0, (1, 16)), target=state(0, 1, 0, 16)),
        DmaCopy(dma_queue=0, source=dram(80, (4, 3)), target=state(0, 1, 64, 3)),
    )["transfers"]
    waits = {"bank_cycles": 0, "row_cycles": 6, "bus_cycles": 0}
    none = dict.fromkeys(waits, 0)
    assert found == {
        "copies": 2,
        "descriptors": 4,
        "bytes": 76,
        "runs": [{"bytes": 64, "count": 1}, {"bytes": 4, "count": 3}],
        "dram": {
            "bursts": 7,
            "hits": 5,
            "opened": 2,
            "conflicts": 0,
            "channels": [
                {"bursts": 4, "hits": 3, "opened": 1, "conflicts": 0, "busy_cycles": 16},
                {"bursts": 3, "hits": 2, "opened": 1, "conflicts": 0, "busy_cycles": 12},
            ],
            "waits": {"dma0": waits, "dma1": none},
        },
    }


def test_without_an_organisation_only_runs_are_counted():
    copy = DmaCopy(dma_queue=0, source=dram(0, (2, 3)), target=state(0, 1, 0, 3))
    found = summary_of(None, copy)["transfers"]
    assert found == {
        "copies": 1,
        "descriptors": 3,
        "bytes": 12,
        "runs": [{"bytes": 4, "count": 3}],
    }


def test_texts():
    moved = Transfers(copies=2)
    moved.runs.update({512: 2048, 4: 9000, 100: 1, 8: 2, 12: 1})
    moved.channels.update({0: ChannelCounts(70, 20, 10, 400), 1: ChannelCounts(0, 0, 0, 0)})
    moved.waits.update({"dma0": QueueWaits(1, 2, 3), "dma1": QueueWaits(1000, 2000, 3000)})
    record = transfer_record(moved)
    assert runs_text(record) == (
        "1,084,704 bytes in 11,052 contiguous runs: 2,048 of 512 bytes, 9,000 of 4 bytes, 1 of "
        "100 bytes, 2 other lengths"
    )
    assert bursts_text(record["dram"]) == (
        "100 bursts: 70 (70.0 %) row hits, 10 row conflicts, 20 closed banks"
    )
    assert channels_text(record["dram"], 1000) == (
        "2 channels, busy 20.0 % of the time (0.0 % to 40.0 %)"
    )
    assert waits_text(record["dram"]) == (
        "queues waited 2,002 cycles for rows to open, 1,001 for banks, 3,003 for buses"
    )
    del moved.channels[1]
    alone = transfer_record(moved)["dram"]
    assert channels_text(alone, 1000) == "1 channel, busy 40.0 % of the time"


def test_the_table_says_so():
    copy = DmaCopy(dma_queue=0, source=dram(0, (1, 16)), target=state(0, 1, 0, 16))
    file = io.StringIO()
    print_summary(summary_of(PARTS, copy), Console(file=file, width=100))
    lines = [line.strip() for line in file.getvalue().splitlines()]
    assert "moved    64 bytes in 1 contiguous run: 1 of 64 bytes" in lines
    assert "dram     4 bursts: 3 (75.0 %) row hits, 0 row conflicts, 1 closed bank" in lines
    assert "queues waited 3 cycles for rows to open, 0 for banks, 0 for buses" in lines


def test_a_run_without_transfers_says_nothing():
    file = io.StringIO()
    print_summary(summary_of(PARTS), Console(file=file, width=100))
    assert "moved" not in file.getvalue().replace("moved  on", "")
