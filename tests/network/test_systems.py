"""System files by the command line: summary, engines, explain, export, pictures, validate, pins."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from support.both_networks import event_run
from support.command_line import refused, run_command
from support.random_networks import random_system
from systolic.network.event.simulate import simulate
from systolic.network.labels import link_labels
from systolic.network.path import last_way
from systolic.run.system import load_system, run_system
from systolic.shipped import CONFIGS

SYSTEMS = CONFIGS / "systems"
SMALL = """
[network]
packet_bytes = 64
[[network.links]]
source = 0
target = "switch"
bytes_per_cycle = 8
latency_cycles = 5
[[network.links]]
source = 1
target = "switch"
bytes_per_cycle = 8
latency_cycles = 5
[[network.links]]
source = "switch"
target = "sink"
bytes_per_cycle = 8
latency_cycles = 5
hop_cycles = 2
slots = 2
[[messages]]
source = 0
target = "sink"
size_bytes = 128
[[messages]]
source = 1
target = "sink"
size_bytes = 64
at_cycle = 3
count = 2
every_cycles = 4
"""
"""Arrivals by hand: message 0 asks in 7 and is sent in 7 and, taking turns, in 23; message 1 in 15;
message 2, which waits in the queue of node 1 until 11 and asks in 18, in 31. A packet takes 12
cycles more. The slots of the last link come back 13 cycles after a grant, one cycle later than the
second next packet could take them; so message 1's in 15 takes the second, and none waits."""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


def test_a_summary(small, tmp_path):
    status, out, err = run_command("run", small, "--out", tmp_path / "out", "--json")
    assert (status, err) == (0, "")
    summary = json.loads(out)
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary
    told = {key: summary[key] for key in ("cycles", "messages", "packets", "packet_hops")}
    assert told == {"cycles": 43, "messages": 3, "packets": 4, "packet_hops": 8}
    assert summary["sent_bytes"] == summary["received_bytes"] == 256
    assert [link["busy_cycles"] for link in summary["links"]] == [16, 16, 32]
    assert [link["blocked_cycles"] for link in summary["links"]] == [0, 0, 0]


def test_the_table_on_the_screen(small, tmp_path):
    status, out, _ = run_command("run", small, "--out", tmp_path / "out")
    assert status == 0
    assert "small on a network, 4 nodes, 3 links: 43 cycles" in out
    assert "switch -> sink" in out


def test_engines_and_settings(small, tmp_path):
    for options, cycles in (
        (["--engine", "stepped"], 43),
        (["--set", "network.arbitration=oldest"], 43),
        (["--set", "network.header_bytes=8"], 47),
    ):
        _, out, _ = run_command("run", small, "--json", "--out", tmp_path / "out", *options)
        assert json.loads(out)["cycles"] == cycles, options
    line = refused("run", small, "--engine", "register")
    assert line.startswith('--engine: a system file needs one of "event", "stepped"')
    assert refused("run", small, "--chip", "x") == (
        f"--chip: means nothing here: {small} is a system file"
    )


def test_explain(small):
    status, out, _ = run_command("explain", small, "--json")
    found = json.loads(out)
    assert status == 0
    assert sum(row["cycles"] for row in found["rows"]) == found["cycles"] == 43
    assert found["steps"][-1]["stop"] == 43
    assert "wire busy with others" in run_command("explain", small)[1]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_the_way_has_no_gap_and_labels_cover_the_run(first):
    """In random systems: every tick of the way has one reason, of every link one label."""
    for seed in range(first, first + 50):
        network, traffic = random_system(seed)
        if not len(traffic) or "deadlock" in event_run(network, traffic):
            continue
        outcome = simulate(network, traffic, hops=True)
        tick = 0
        for step in last_way(network, traffic, outcome):
            assert (step.first, step.stop > step.first) == (tick, True), f"seed {seed}"
            tick = step.stop
        assert tick == outcome.ticks
        for number, labels in enumerate(link_labels(network, traffic, outcome)):
            period = network.links[number].period
            spent = {"sending": 0, "blocked": 0, "idle": 0}
            tick = 0
            for each in labels:
                assert each.first == tick
                tick = each.stop
                spent[each.label.split()[0]] += each.stop - each.first
            assert tick >= outcome.ticks
            assert spent["sending"] == outcome.busy_cycles[number] * period
            assert spent["blocked"] == outcome.blocked_cycles[number] * period


def test_perfetto(small, tmp_path):
    out = tmp_path / "trace.json"
    assert run_command("export", "perfetto", small, "--out", out)[0] == 0
    events = json.loads(out.read_text())["traceEvents"]
    slices = [each for each in events if each["ph"] == "X" and each["name"].startswith("message")]
    assert len(slices) == 8
    assert {each["dur"] for each in slices} == {8}
    assert refused("export", "vcd", small, "--out", out) == (
        "FORMAT: a system file is exported as perfetto, not as vcd"
    )


@pytest.mark.parametrize("view", ["link_use", "distance", "link_timeline"])
def test_views(view, small, tmp_path):
    for form in ("png", "svg"):
        out = tmp_path / f"picture.{form}"
        assert run_command("plot", view, small, "--out", out)[0] == 0
        assert out.stat().st_size > 2000


def test_views_of_something_else(small, tmp_path):
    assert refused("plot", "timeline", small) == (
        f"{small}: is a system file, of which timeline shows nothing (link_use, distance, "
        "link_timeline do)"
    )
    run_file = CONFIGS / "runs" / "transpose_fig3.toml"
    assert refused("plot", "link_use", run_file, "--out", tmp_path / "x.png") == (
        f"{run_file}: is no system file, and link_use shows links of a network"
    )


@pytest.mark.parametrize(
    ("arguments", "links", "diameter", "bisection"),
    [(("torus", 4, 4), 32, 4, 8), (("ring", 8), 8, 4, 2), (("clos", 4, 2, 2), 16, 4, 4)],
)
def test_topology(arguments, links, diameter, bisection, tmp_path):
    out = tmp_path / "t.png"
    status, text, _ = run_command("topology", *arguments, "--out", out)
    assert status == 0
    words = {line[: line.rindex(" ")].strip(): line.split()[-1] for line in text.splitlines()}
    found = [words[key] for key in ("links each way", "diameter", "bisection, each way")]
    assert found == [f"{links}", f"{diameter}", f"{bisection}"]
    assert out.stat().st_size > 2000


def test_the_torus_of_1024_nodes(tmp_path):
    """The closed form: 2 x 31 (65536 + 1399) + 2 x 31 (2048 + 1399)."""
    result = run_system(load_system(SYSTEMS / "torus_1024.toml"))
    assert result.outcome.ticks == 2 * 31 * (65536 + 1399 + 2048 + 1399) == 4_363_684
    assert result.outcome.packet_hops == 2 * 2 * 62 * 1024 == 253_952


def test_an_incast_is_bound_by_the_last_link():
    """7 senders of 256 packets of 28 flits: k P F cycles on the last link, and the way there."""
    outcome = run_system(load_system(SYSTEMS / "clos_incast.toml")).outcome
    assert max(outcome.busy_cycles) == 7 * 256 * 28
    assert outcome.ticks - max(outcome.busy_cycles) < 200


def test_a_ring_with_two_slots_is_throttled():
    """A period per slot of L + F - 1 + c = 564: of 28,672 / 8 packets a link sends 2 in each."""
    outcome = run_system(load_system(SYSTEMS / "ring_slots.toml")).outcome
    packets = outcome.packets // 8
    assert outcome.ticks == pytest.approx(packets / 2 * 564, rel=0.001)


@pytest.mark.parametrize("path", sorted(SYSTEMS.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_systems_say_what_they_are(path):
    tables = tomllib.loads(path.read_text())
    assert tables["name"] == path.stem
    assert tables["description"]


def test_the_constants_that_are_fitted_are_marked():
    two_ranks = load_system(CONFIGS / "validation" / "two_ranks.toml").file.provenance
    fitted = [text for text in two_ranks.sources.values() if text.startswith("fitted:")]
    assert len(fitted) == 3
    assert load_system(SYSTEMS / "trn2_16.toml").file.provenance is not None


def test_published_times_of_collectives_come_out():
    """Eleven rows, each within 5 %: max(58 us, 33 us + S / 56.8 GB/s) alone would miss 1 MiB."""
    status, out, _ = run_command("validate", "collectives", "--json")
    rows = json.loads(out)
    assert status == 0
    assert len(rows) == 11
    assert all(abs(row["deviation"]) <= 0.05 * row["published"] for row in rows)
