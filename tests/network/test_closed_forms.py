"""Cycles that follow from closed formulas, or were worked out by hand, on both models."""

from __future__ import annotations

from typing import Any

import pytest

import systolic.network as net

ENGINES = ("event", "stepped")


def link(source: Any, target: Any, **changes: int) -> dict[str, Any]:
    given = {"bytes_per_cycle": 8, "latency_cycles": 5, "slots": 100, "credit_cycles": 1}
    return {"source": source, "target": target, "hop_cycles": 2, "channels": 1, **given, **changes}


def chain(hops: int, **changes: int) -> dict[str, Any]:
    links = [link(n, n + 1, **changes) for n in range(hops)]
    return {"packet_bytes": 64, "header_bytes": 0, "links": links}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("hops", [1, 2, 5])
def test_a_packet_alone(hops, engine):
    """h L + (h - 1) hop + F - 1."""
    assert net.run(chain(hops), [(0, hops, 64, 7)], engine) == [[7 + hops * 5 + (hops - 1) * 2 + 7]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("senders", "packets"), [(1, 9), (3, 5), (6, 20)])
def test_senders_into_one_port(senders, packets, engine):
    """h L + (h - 1) hop + k P F - 1, through one switch."""
    links = [link(n, "switch") for n in range(senders)] + [link("switch", "sink")]
    messages = [(n, "sink", 64 * packets, 0) for n in range(senders)]
    arrivals = net.run({"packet_bytes": 64, "links": links}, messages, engine)
    assert max(map(max, arrivals)) == 2 * 5 + 2 + senders * packets * 8 - 1


@pytest.mark.parametrize("engine", ENGINES)
def test_too_few_slots(engine):
    """A flow sends a packet per slot every L + hop + F - 1 + c = 15 cycles: 33 + 49 x 15."""
    (arrivals,) = net.run(chain(4, slots=1), [(0, 4, 50 * 64, 0)], engine)
    assert arrivals == [33 + 15 * n for n in range(50)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_target_takes_at_once(engine):
    """256 packets of 64 flits over one link with 4 slots and L = 500: 63 turns of 564 cycles."""
    table = {
        "packet_bytes": 64,
        "links": [link(0, 1, bytes_per_cycle=1, latency_cycles=500, slots=4)],
    }
    (arrivals,) = net.run(table, [(0, 1, 256 * 64, 0)], engine)
    assert arrivals[-1] == 36_287


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("forwarding", "first", "second", "expected"),
    [
        ("cut_through", 8, 8, 5 + 2 + 0 + 5 + 7),  # lag 0
        ("cut_through", 8, 16, 5 + 2 + 4 + 5 + 3),  # 8 flits, then 4: lag 4
        ("cut_through", 16, 8, 5 + 2 + 0 + 5 + 7),  # 4 flits, then 8: none is missing
        ("cut_through", 3, 5, 5 + 2 + 9 + 5 + 12),  # 22 flits, then 13: max(9, ceil(60 / 3) - 12)
        ("cut_through", 8, 3, 5 + 2 + 0 + 5 + 21),
        ("store", 8, 8, 5 + 2 + 8 + 5 + 7),  # all 8 flits of the link before
        ("store", 8, 16, 5 + 2 + 8 + 5 + 3),
    ],
)
def test_the_wait_between_links_of_other_widths(forwarding, first, second, expected, engine):
    links = [link(0, 1, bytes_per_cycle=first), link(1, 2, bytes_per_cycle=second)]
    table = {"packet_bytes": 64, "forwarding": forwarding, "links": links}
    assert net.run(table, [(0, 2, 64, 0)], engine) == [[expected]]


@pytest.mark.parametrize("engine", ENGINES)
def test_headers_and_a_short_last_packet(engine):
    """100 bytes in packets of 64 with headers of 8: 72 and 44 bytes, 9 and 6 flits."""
    table = {**chain(1), "header_bytes": 8}
    assert net.run(table, [(0, 1, 100, 0)], engine) == [[5 + 8, 9 + 5 + 5]]


@pytest.mark.parametrize("engine", ENGINES)
def test_two_clocks(engine):
    """A link of 3 ticks a cycle, then one of 2: 4 flits sent in 0, 3, 6, 9 are there 6 later.

    The second link has flits of the same width. Flit 3 is there in tick 15 and sent 3 x 2 after
    flit 0, which so is sent in tick 9 at the earliest, with the node's cycle in 11: the edge 12.
    It sends its last flit in 18, which is there 2 x 2 later.
    """
    links = [
        link(0, 1, latency_cycles=2, hop_cycles=1) | {"clock": "slow"},
        link(1, 2, latency_cycles=2, hop_cycles=1) | {"clock": "fast"},
    ]
    table = {"packet_bytes": 32, "clock": {"slow": 200, "fast": 300}, "links": links}
    assert net.run(table, [(0, 2, 32, 0)], engine) == [[22]]


@pytest.mark.parametrize("engine", ENGINES)
def test_round_robin_and_oldest(engine):
    """Two switch inputs and the switch's own queue take turns; the oldest goes first if asked."""
    links = [link(0, "switch"), link(1, "switch"), link("switch", "sink")]
    messages = [(1, "sink", 128, 0), (0, "sink", 128, 1), ("switch", "sink", 128, 8)]
    table = {"packet_bytes": 64, "links": links}
    assert net.run(table, messages, engine) == [[19, 43], [35, 59], [27, 51]]
    oldest = net.run({**table, "arbitration": "oldest"}, messages, engine)
    assert oldest == [[19, 27], [35, 43], [51, 59]]


@pytest.mark.parametrize(("engine", "nodes"), [("event", 2), ("event", 8), ("stepped", 3)])
@pytest.mark.parametrize("alpha", [0, 5])
@pytest.mark.parametrize("flits", [1, 16])
@pytest.mark.parametrize("slices", [1, 4])
def test_a_sliced_ring(nodes, slices, flits, alpha, engine):
    """(s - 1) F + (K - 1) max(s F, F + a) + F + L - 1, a = L - 1 + alpha, K = 2 (n - 1)."""
    wires = {"bytes_per_cycle": 4, "latency_cycles": 7, "slots": 99}
    cycles = net.collective(
        {"kind": "ring", "shape": [nodes], "link": wires}, "all_reduce", algorithm="ring",
        size_bytes=nodes * slices * flits * 4, slices=slices, alpha_cycles=alpha, engine=engine,
    )  # fmt: skip
    steps, a = 2 * (nodes - 1), 7 - 1 + alpha
    assert cycles == (slices - 1) * flits + (steps - 1) * max(slices * flits, flits + a) + flits + 6


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("side", [2, 3, 4])
def test_a_torus_with_barriers(side, engine):
    """2 (n_x - 1)(F_x + a) + 2 (n_y - 1)(F_y + a), half of the data x first, half y first."""
    wires = {"bytes_per_cycle": 4, "latency_cycles": 7, "slots": 99}
    size = 2 * side * side * 4 * 6
    cycles = net.collective(
        {"kind": "torus", "shape": [side, side], "link": wires}, "all_reduce", algorithm="torus",
        size_bytes=size, alpha_cycles=3, engine=engine,
    )  # fmt: skip
    along_x, along_y, a = size // 2 // side // 4, size // 2 // side // side // 4, 7 - 1 + 3
    assert cycles == 2 * (side - 1) * (along_x + a + along_y + a)


@pytest.mark.parametrize("engine", ENGINES)
def test_shares_along_a_chain_of_merges_are_not_fair(engine):
    """Four hosts in a row at switches get 1/8, 1/8, 1/4, 1/2 of the last link; oldest is fair."""
    links = [link(f"h{n}", f"s{n}", slots=2) for n in range(4)]
    links += [link(f"s{n}", f"s{n + 1}", slots=2) for n in range(3)] + [link("s3", "sink")]
    messages = [(f"h{n}", "sink", 64, 8 * k) for k in range(120) for n in range(4)]

    def shares(arbitration: str) -> list[int]:
        table = {"packet_bytes": 64, "arbitration": arbitration, "links": links}
        arrivals = net.run(table, messages, engine)
        return [sum(arrivals[m][0] < 800 for m in range(n, 480, 4)) for n in range(4)]

    unfair, fair = shares("round_robin"), shares("oldest")
    assert [round(8 * share / sum(unfair)) for share in unfair] == [1, 1, 2, 4]
    assert max(fair) - min(fair) <= 3
