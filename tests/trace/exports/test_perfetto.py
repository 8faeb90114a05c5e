"""Is a run in Perfetto's JSON what was recorded? Read by json, and held against the records."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest

from support.explained import random_run
from support.tiers import quick_first
from systolic.run.execute import run
from systolic.run.observe import observed
from systolic.run.result import Result
from systolic.shipped import CONFIGS
from systolic.trace.exports.perfetto import perfetto


def events_of(result: Result) -> list[dict[str, Any]]:
    found = json.loads("".join(perfetto(observed(result))))
    return list(found["traceEvents"])


def random_result(seed: int) -> Result:
    made = random_run(seed)
    return Result({"run": "random"}, {}, made.trace, made.chip, made.program)


def tracks(events: list[dict[str, Any]]) -> dict[int, str]:
    return {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}


def slices(events: list[dict[str, Any]], suffix: str) -> dict[str, list[dict[str, Any]]]:
    """Return the slices of tracks by the name before the suffix and the number of the track."""
    found, names = defaultdict(list), tracks(events)
    for event in events:
        if event["ph"] == "X":
            name = names[event["tid"]].partition(" (")[0]
            if name.endswith(suffix) and ("instructions" in name) == bool(suffix):
                found[name.removesuffix(suffix)].append(event)
    return found


SEEDS = quick_first(range(60), 12)


@pytest.mark.parametrize("seed", SEEDS)
def test_labels_and_instructions_are_those_of_the_records(seed):
    result = random_result(seed)
    events, trace = events_of(result), result.trace
    labels, instructions = slices(events, ""), slices(events, " instructions")
    for unit, intervals in trace.labels.items():
        period = trace.periods[unit]
        told = [(e["ts"], e["ts"] + e["dur"], e["name"]) for e in labels[unit]]
        assert told == [(a * period, b * period, x) for a, b, x in intervals if x != "idle"]
        told = sorted((e["args"]["instruction"], e["ts"], e["dur"]) for e in instructions[unit])
        assert told == [
            (t.instruction, t.start, t.done + period - t.start)
            for t in trace.times
            if t.unit == unit
        ]


@pytest.mark.parametrize("seed", SEEDS)
def test_slices_of_a_track_follow_one_another(seed):
    by_track = defaultdict(list)
    for event in events_of(random_result(seed)):
        if event["ph"] == "X":
            by_track[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for found in by_track.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(found)))


@pytest.mark.parametrize("seed", SEEDS)
def test_counters_and_arrows(seed):
    """A counter ends at its semaphore's posts; an arrow leads from a slice into a later one."""
    result = random_result(seed)
    events, program = events_of(result), result.program
    counts = {e["name"]: e["args"]["count"] for e in events if e["ph"] == "C"}
    posts = Counter(e.semaphore for e in result.trace.semaphores if e.kind == "post")
    assert counts == {program.semaphores[number]: count for number, count in posts.items()}
    within = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            within[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    ends = [event for event in events if event["ph"] in "sf"]
    assert len(ends) == 2 * sum(w.value > 0 for i in program.instructions for w in i.waits)
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        assert (start["ph"], stop["ph"], start["id"]) == ("s", "f", stop["id"])
        assert start["ts"] < stop["ts"]
        for end in (start, stop):
            assert any(a <= end["ts"] < b for a, b in within[end["tid"]])


def test_operations_stand_above():
    result = run(CONFIGS / "runs" / "matmul_chain.toml", values=False)
    events = events_of(result)
    names = tracks(events)
    found = {e["name"]: (e["ts"], e["dur"]) for e in events
             if e["ph"] == "X" and names[e["tid"]].startswith("operations")}  # fmt: skip
    cycles = {each["name"]: each["cycles"] for each in result.summary["operations"]}
    assert {name: dur for name, (_, dur) in found.items()} == cycles
