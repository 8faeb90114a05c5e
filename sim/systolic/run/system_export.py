"""A run of a system for Perfetto and chrome://tracing: a track for each link, messages as slices.

A tick is written as a microsecond, as in `trace.exports.perfetto`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from systolic.network.labels import IDLE, SENDING, LinkInterval, link_labels
from systolic.run.system import System, SystemResult, run_system

LINKS, MESSAGES = 1, 2
"""Numbers of the groups of tracks ("processes")."""


def system_perfetto(system: System) -> tuple[Iterator[str], SystemResult]:
    """Return the lines of the file, and the run that they are of."""
    result = run_system(system, hops=True)
    return _lines(_events(result)), result


def _lines(events: Iterator[dict[str, Any]]) -> Iterator[str]:
    yield '{"displayTimeUnit": "ns", "traceEvents": [\n'
    for number, event in enumerate(events):
        yield (",\n" if number else "") + json.dumps(event)
    yield "\n]}\n"


def _events(result: SystemResult) -> Iterator[dict[str, Any]]:
    system, outcome = result.system, result.outcome
    network, traffic = system.network, system.traffic
    mhz = network.ticks_mhz
    scale = "1 us is a cycle" if mhz is None else f"1 us is a tick of {mhz} MHz"
    yield _named("process_name", LINKS, 0, f"links of {system.name} ({scale})")
    for track, each in enumerate(link_labels(network, traffic, outcome), 1):
        name = f"{track - 1}: {network.links[track - 1]}"
        yield _named("thread_name", LINKS, track, name)
        for interval in each:
            if interval.label != IDLE:
                yield _slice(LINKS, track, _name(interval), interval.first, interval.stop)
    yield _named("process_name", MESSAGES, 0, "messages, by their source")
    yield from _messages(result)


def _messages(result: SystemResult) -> Iterator[dict[str, Any]]:
    """Yield messages as asynchronous slices, since messages of one source overlap."""
    traffic, outcome = result.system.traffic, result.outcome
    track = {node: place for place, node in enumerate(result.system.network.nodes, 1)}
    for node in dict.fromkeys(traffic.sources):
        yield _named("thread_name", MESSAGES, track[node], f"{node}")
    for number, arrivals in enumerate(outcome.arrivals):
        source, target = traffic.sources[number], traffic.targets[number]
        common = {
            "cat": "message",
            "id": number,
            "pid": MESSAGES,
            "tid": track[source],
            "name": f"message {number}: {source} -> {target}",
        }
        args = {"size_bytes": traffic.sizes_bytes[number], "packets": len(arrivals)}
        yield {"ph": "b", "ts": outcome.entries[number], "args": args, **common}
        yield {"ph": "e", "ts": max(arrivals), **common}


def _name(interval: LinkInterval) -> str:
    if interval.label == SENDING:
        return f"message {interval.message} packet {interval.packet}"
    return interval.label


def _slice(group: int, track: int, name: str, first: int, stop: int) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": group, "tid": track, "ts": first, "dur": stop - first}


def _named(kind: str, group: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": group, "tid": track, "args": {"name": name}}
