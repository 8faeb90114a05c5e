"""The DMA queues' transfers: as the summary keeps them, and as sentences that a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from systolic.report.summary.wording import number, percent, plural
from systolic.trace.transfers import Transfers

SHOWN_LENGTHS = 3
COUNTS = ("hits", "opened", "conflicts", "busy_cycles")
WAITS = ("bank_cycles", "row_cycles", "bus_cycles")


def transfer_record(transfers: Transfers) -> dict[str, Any]:
    """Return the entry of summary.json on the DMA queues.

    Its keys are copies, descriptors, bytes and runs: how many descriptors there are of each length
    in bytes, with the lengths that move most first. DRAM with an organisation adds `dram`: bursts,
    hits, opened, conflicts; channels (the same counts, and busy_cycles in DMA cycles); waits (by
    queue, in DMA cycles).
    """
    lengths = sorted(transfers.runs.items(), key=lambda item: (-item[0] * item[1], -item[0]))
    record: dict[str, Any] = {
        "copies": transfers.copies,
        "descriptors": transfers.descriptors,
        "bytes": transfers.moved_bytes,
        "runs": [{"bytes": size, "count": count} for size, count in lengths],
    }
    if transfers.channels:
        channels = [
            {"bursts": each.bursts} | {name: getattr(each, name) for name in COUNTS}
            for _, each in sorted(transfers.channels.items())
        ]
        totals = ("bursts", "hits", "opened", "conflicts")
        record["dram"] = {name: sum(c[name] for c in channels) for name in totals}
        record["dram"]["channels"] = channels
        record["dram"]["waits"] = {
            unit: {name: getattr(waits, name) for name in WAITS}
            for unit, waits in transfers.waits.items()
        }
    return record


def runs_text(record: Mapping[str, Any]) -> str:
    """Return how many bytes were moved, in how many contiguous runs of each length."""
    shown = record["runs"][:SHOWN_LENGTHS]
    listed = [f"{number(each['count'])} of {plural(each['bytes'], 'byte')}" for each in shown]
    more = len(record["runs"]) - len(shown)
    listed += [f"{plural(more, 'other length')}"] if more else []
    runs = plural(record["descriptors"], "contiguous run")
    return f"{plural(record['bytes'], 'byte')} in {runs}: {', '.join(listed)}"


def bursts_text(dram: Mapping[str, Any]) -> str:
    """Return how many bursts there were: row hits, row conflicts, and closed banks."""
    hits = f"{number(dram['hits'])} ({percent(dram['hits'], max(1, dram['bursts']))}) row hits"
    return (
        f"{plural(dram['bursts'], 'burst')}: {hits}, {number(dram['conflicts'])} row conflicts, "
        f"{plural(dram['opened'], 'closed bank')}"
    )


def channels_text(dram: Mapping[str, Any], cycles: int) -> str:
    """Return how busy the channels were in a run of that many DMA cycles."""
    busy = [channel["busy_cycles"] for channel in dram["channels"]]
    if len(busy) == 1:
        return f"1 channel, busy {percent(busy[0], cycles)} of the time"
    return (
        f"{plural(len(busy), 'channel')}, busy {percent(sum(busy), cycles * len(busy))} of the "
        f"time ({percent(min(busy), cycles)} to {percent(max(busy), cycles)})"
    )


def waits_text(dram: Mapping[str, Any]) -> str:
    """Return for how many cycles the bursts of all queues together waited, and for what."""
    bank, row, bus = (sum(w[name] for w in dram["waits"].values()) for name in WAITS)
    return (
        f"queues waited {plural(row, 'cycle')} for rows to open, {number(bank)} for banks, "
        f"{number(bus)} for buses"
    )
