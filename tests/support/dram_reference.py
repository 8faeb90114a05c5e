"""Twin of the engines' `dram` rooms: DRAM burst by burst, by docs/timing_model.md, section 6.

Shares no code with `sim`: neither engines nor formulas. No ports, no dispatch, no semaphores: each
queue has its copies one after the other. Cycles count up from 0, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

Run = tuple[int | None, int | None, int]
"""A descriptor: source address, target address (None: not DRAM), bytes."""


class Timing(NamedTuple):
    channels: int
    banks: int
    row: int
    burst: int
    interleave: int
    activate: int
    precharge: int
    burst_cycles: int
    latency: int
    fetch: int


class Result(NamedTuple):
    """Cycle in which each copy of each queue ends, and how bursts found their banks."""

    ends: list[list[int]]
    hits: int
    opened: int
    conflicts: int


def stream(timing: Timing, copies: list[list[Run]]) -> Iterator[int | str]:
    """Yield what a queue does: cycles to spend, "end" of a copy, or the address of a burst."""
    for runs in copies:
        yield from [None] * timing.latency
        for source, target, size in runs:
            yield from [None] * timing.fetch
            arrived = 0 if source is not None else size
            written = 0
            while written < size if target is not None else arrived < size:
                if target is not None:
                    goal = min((target + written) // timing.burst * timing.burst
                               + timing.burst - target, size)  # fmt: skip
                    if goal <= arrived:
                        yield target + written
                        written = goal
                        continue
                yield source + arrived
                end = (source + arrived) // timing.burst * timing.burst + timing.burst
                arrived = min(size, end - source)
        yield "end"


def reference(timing: Timing, queues: list[list[list[Run]]]) -> Result:
    """Return when every copy ends. queues: copies of each queue, each a list of descriptors."""
    streams = [stream(timing, copies) for copies in queues]
    ends: list[list[int]] = [[] for _ in queues]
    rows: dict[tuple[int, int], int] = {}
    banks: dict[tuple[int, int], int] = {}  # the queue that has it
    buses: dict[int, int] = {}
    found = {"hits": 0, "opened": 0, "conflicts": 0}
    now: list[dict | None] = [{"spend": 0} for _ in queues]

    def next_step(q: int, cycle: int) -> None:
        """Take what the queue does next: from the coming cycle on."""
        item = next(streams[q], "over")
        while item == "end":
            ends[q].append(cycle)
            item = next(streams[q], "over")
        if item == "over":
            now[q] = None
        elif item is None:
            now[q] = {"spend": 1}
        else:
            part, byte = divmod(item, timing.interleave)
            inside = part // timing.channels * timing.interleave + byte
            number = inside // timing.row
            channel = part % timing.channels
            now[q] = {
                "since": cycle + 1, "channel": channel, "bank": (channel, number % timing.banks),
                "row": number // timing.banks, "opening": None, "left": timing.burst_cycles,
            }  # fmt: skip

    for q in range(len(queues)):
        next_step(q, -1)
    cycle = 0
    while any(now):
        line = sorted((s["since"], q) for q, s in enumerate(now) if s and "since" in s)
        for _, q in line:  # banks
            step = now[q]
            if step["opening"] is None and step["bank"] not in banks:
                banks[step["bank"]] = q
                before = rows.get(step["bank"])
                kind = (
                    "hits"
                    if before == step["row"]
                    else "conflicts"
                    if before is not None
                    else "opened"
                )
                found[kind] += 1
                step["opening"] = {
                    "hits": 0, "opened": timing.activate,
                    "conflicts": timing.precharge + timing.activate,
                }[kind]  # fmt: skip
                rows[step["bank"]] = step["row"]
        for _, q in line:  # data buses
            step = now[q]
            if step["opening"] == 0 and step["channel"] not in buses:
                buses[step["channel"]] = q
        for q, step in enumerate(now):  # a cycle passes
            if step is None:
                continue
            if "spend" in step:
                next_step(q, cycle)
            elif step["opening"]:
                step["opening"] -= 1
            elif buses.get(step["channel"]) == q:
                step["left"] -= 1
                if not step["left"]:
                    del buses[step["channel"]]
                    del banks[step["bank"]]
                    next_step(q, cycle)
        cycle += 1
    return Result(ends, **found)
