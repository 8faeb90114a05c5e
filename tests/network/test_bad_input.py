"""What is refused, in one line: from Python, from files, and by the command line with status 2."""

from __future__ import annotations

import pytest

import systolic.network as net
from support.command_line import refused
from systolic.errors import ConfigError, SimulationError

LINK = {"bytes_per_cycle": 4, "latency_cycles": 2}
TWO = {"links": [{"source": 0, "target": 1, **LINK}, {"source": 1, "target": 2, **LINK}]}
ROUTE = {"source": 0, "target": 2, "links": [0, 1]}


def with_link(**changes):
    return {"links": [{"source": 0, "target": 1, **LINK, **changes}]}


@pytest.mark.parametrize(
    ("table", "messages", "text"),
    [
        (TWO, [(2, 0, 8, 0)], "no links lead from node 2 to node 0"),
        (TWO, [(0, 7, 8, 0)], "no node 7"),
        (TWO, [(0, 1, 8, -1)], "message 0: at_cycle: needs an integer >= 0, found -1"),
        (TWO, [(0, 1, 0, 0)], "message 0: size_bytes: needs an integer >= 1, found 0"),
        (TWO, [(0, 1, 8, 0), (1, 1, 8, 0)], "message 1: from node 1 to itself"),
        (TWO, [(0, 1, 8)],
         "message 0: needs (source, target, size_bytes, at_cycle), found (0, 1, 8)"),
        (with_link(slots=0), [],
         "links #0 slots: Input should be greater than or equal to 1, found 0"),
        (with_link(credit_cycles=0), [], "credit_cycles"),
        (with_link(latency_cycles=0), [], "latency_cycles"),
        (with_link(latency_ns=3), [], "the link 0 -> 1 needs either latency_cycles or latency_ns"),
        (with_link(bytes_per_cycle=None), [], "the link 0 -> 1 needs bytes_per_cycle"),
        (with_link(slot=3), [],
         'links #0 slot: is no key of this table; perhaps "slots" was meant'),
        (with_link(target=0), [], "a link from node 0 to itself"),
        (with_link(clock="net"), [], 'clock: no clock "net" (there are: none)'),
        ({}, [], "needs links, or a kind: ring, mesh, torus or clos"),
        ({"kind": "ring", "link": LINK}, [], 'kind = "ring" needs a shape, such as [4, 4]'),
        ({"kind": "ring", "shape": [2, 2], "link": LINK}, [], "a ring has one dimension"),
        ({"kind": "ring", "shape": [1], "link": LINK}, [], "needs 2 to 65536 nodes, found [1]"),
        ({"kind": "ring", "shape": [4]}, [], 'kind = "ring" needs a table link'),
        ({"kind": "clos", "leaves": 2, "link": LINK}, [], "needs leaves, hosts (of each leaf)"),
        ({"kind": "torus", "shape": [3, 3], "link": {**LINK, "channels": 1}}, [],
         "link: channels: a torus needs 2, without which its routes can deadlock, found 1"),
        ({**TWO, "routes": [{**ROUTE, "links": [0, 2]}]}, [],
         "the route from node 0 to node 2: no link 2 (there are 0 to 1)"),
        ({**TWO, "routes": [{**ROUTE, "links": [1]}]}, [],
         "the route from node 0 to node 2: link 1 (1 -> 2) does not begin at node 0"),
        ({**TWO, "routes": [{**ROUTE, "links": [0]}]}, [],
         "the route from node 0 to node 2 ends at node 1"),
        ({**TWO, "routes": [{**ROUTE, "channels": [0]}]}, [],
         "the route from node 0 to node 2 has 2 links and 1 channels"),
        ({**TWO, "routes": [{**ROUTE, "channels": [0, 1]}]}, [],
         "link 1 (1 -> 2) has 1 channels, found channel 1"),
        ({**TWO, "routes": [ROUTE, ROUTE]}, [], "two routes from node 0 to node 2"),
        ({**TWO, "routes": [ROUTE]}, [(0, 1, 8, 0)], "no route from node 0 to node 1"),
    ],
)  # fmt: skip
def test_from_python(table, messages, text):
    with pytest.raises(ConfigError) as error:
        net.run(table, messages)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_engine():
    with pytest.raises(ConfigError, match='needs one of "event", "stepped", found "evnt"; perhaps'):
        net.run(TWO, [], "evnt")


def ring(slots: int = 1):
    wires = {"bytes_per_cycle": 1, "latency_cycles": 2, "slots": slots, "channels": 1}
    return {
        "packet_bytes": 8,
        "links": [{"source": n, "target": (n + 1) % 5, **wires} for n in range(5)],
    }


TWO_HOPS = [(n, (n + 2) % 5, 16, 0) for n in range(5)]


@pytest.mark.parametrize("engine", ["event", "stepped"])
def test_a_deadlock_is_named_link_by_link(engine):
    """With one channel and one slot five nodes of a ring that send two hops each."""
    with pytest.raises(SimulationError) as error:
        net.run(ring(), TWO_HOPS, engine)
    assert str(error.value).startswith("the network is in a deadlock since cycle ")
    for n in range(5):
        assert f"link {n} ({n} -> {(n + 1) % 5}) channel 0" in str(error.value)


@pytest.mark.parametrize("engine", ["event", "stepped"])
def test_what_could_deadlock_and_does_not_has_a_result(engine):
    assert net.run(ring(slots=9), TWO_HOPS, engine) == net.run(ring(slots=9), TWO_HOPS, "stepped")


SYSTEM = """
[network]
packet_bytes = 8
{links}
[[messages]]
{messages}
"""


def system_text(messages: str = "source = 0\ntarget = 1\nsize_bytes = 8", **changes: object) -> str:
    keys = {"bytes_per_cycle": 1, "latency_cycles": 2, **changes}
    lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
    links = "".join(
        f"[[network.links]]\nsource = {n}\ntarget = {(n + 1) % 5}\n{lines}\n" for n in range(5)
    )
    return SYSTEM.format(links=links, messages=messages)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (system_text(slots=0), "slots: needs an integer >= 1, found 0"),
        (system_text("source = 0\ntarget = 9\nsize_bytes = 8"), "network: no node 9"),
        (system_text("source = 0\ntarget = 1\nsize_bytes = 8\nat_cycle = -4"),
         "at_cycle: needs an integer >= 0, found -4"),
        (system_text("source = 0\ntarget = 1\nsize_bites = 8"), 'unknown key "size_bites"'),
        (SYSTEM.format(links="kind = 'rng'", messages=""), 'kind: needs one of'),
        ("[network]\nkind = 'ring'\nshape = [3]\n"
         "link = { bytes_per_cycle = 1, latency_cycles = 1 }\n",
         "messages, collectives: needs at least one of them"),
    ],
)  # fmt: skip
def test_a_system_file(text, expected, tmp_path):
    file = tmp_path / "system.toml"
    file.write_text(text)
    line = refused("run", file, "--out", tmp_path / "out")
    assert expected in line
    assert str(file) in line
    assert not (tmp_path / "out").exists()


def test_routes_of_a_file_that_can_deadlock_are_refused_before_they_run(tmp_path):
    """Even with so many slots that nothing would: the next message might."""
    tables = [f"source = {n}\ntarget = {(n + 2) % 5}\nsize_bytes = 8" for n in range(5)]
    file = tmp_path / "system.toml"
    file.write_text(system_text("\n[[messages]]\n".join(tables), slots=50))
    line = refused("run", file, "--out", tmp_path / "out")
    assert "these routes can deadlock: each of these buffers can wait for the next" in line
    assert "link 0 (0 -> 1) channel 0, link 1 (1 -> 2) channel 0" in line


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["topology", "tours", "4"],
         'KIND: there is no topology "tours" (known: ring, mesh, torus, clos; a '
         'file ends in .toml or .graphml); perhaps "torus" was meant'),
        (["topology", "torus"], "SHAPE: is missing; needed the nodes of each dimension of a torus"),
        (["topology", "torus", "0", "4"], 'SHAPE: needs whole numbers of 1 or more, found "0"'),
        (["topology", "clos", "4"],
         "SHAPE: a clos needs leaves, hosts of each leaf and spines, such as clos 4 2 2"),
        (["topology", "nothing.graphml"], "nothing.graphml: no such file"),
    ],
)  # fmt: skip
def test_the_command_line(arguments, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(*arguments) == text


def test_a_file_that_is_not_graphml(tmp_path):
    file = tmp_path / "net.graphml"
    file.write_text("<graph>")
    assert refused("topology", file).startswith(f"{file}: is not GraphML: ")
