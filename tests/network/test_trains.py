"""Trains: no more events for a larger message; never visible; met anywhere, settled anywhere."""

from __future__ import annotations

import random

import pytest

from support.both_networks import packet_run, stepped_run, train_run
from systolic.network.event.links import Links
from systolic.network.event.simulate import simulate
from systolic.network.event.trains import TrainLinks
from systolic.network.read import read_network
from systolic.network.simulate import traffic_of


def decisions(monkeypatch, network, traffic) -> int:
    """Return how many times links decide in a run."""
    count = 0
    original = Links.decide

    def counted(self, link, tick):
        nonlocal count
        count += 1
        original(self, link, tick)

    with monkeypatch.context() as patched:
        patched.setattr(Links, "decide", counted)
        simulate(network, traffic)
    return count


def chain(slots: int, hops: int = 3):
    wires = {"bytes_per_cycle": 4, "latency_cycles": 9, "slots": slots, "credit_cycles": 1}
    links = [{"source": n, "target": n + 1, "hop_cycles": 2, **wires} for n in range(hops)]
    return read_network({"packet_bytes": 16, "links": links})


@pytest.mark.parametrize("slots", [1, 2, 50])
def test_a_message_that_meets_nobody_costs_the_same_whatever_its_size(slots, monkeypatch):
    """Also if it waits for its own credits (1 and 2 slots)."""
    network = chain(slots)
    small, large = (
        decisions(monkeypatch, network, traffic_of([(0, 3, packets * 16, 5)]))
        for packets in (100, 100_000)
    )
    assert small == large <= 4


@pytest.mark.parametrize("slots", [1, 2, 50])
def test_messages_one_behind_the_other_cost_a_few_events_each(slots, monkeypatch):
    network = chain(slots)
    few, many = (
        decisions(monkeypatch, network, traffic_of([(0, 3, packets * 16, n) for n in range(10)]))
        for packets in (200, 20_000)
    )
    assert many <= few + 200


@pytest.mark.parametrize("slots", [1, 3, 40])
def test_a_repeated_stretch_is_that_of_all_packets(slots):
    """Long messages, whose times are repeated, against every packet by itself."""
    network = chain(slots)
    traffic = traffic_of([(0, 3, 3_000 * 16 + 5, 3)])
    with_trains, without = (
        simulate(network, traffic, train_packets=packets) for packets in (2, None)
    )
    assert with_trains.arrivals == without.arrivals
    assert with_trains.blocked_cycles == without.blocked_cycles


def test_meetings_at_every_cycle():
    """A long message is met, once in each of many runs a cycle later, by a packet that crosses."""
    wires = {"bytes_per_cycle": 4, "latency_cycles": 3, "slots": 2, "credit_cycles": 1}
    links = [{"source": n, "target": n + 1, **wires} for n in range(3)]
    links += [{"source": "side", "target": 1, **wires}, {"source": 2, "target": "out", **wires}]
    network = read_network({"packet_bytes": 12, "links": links})
    for cycle in range(60):
        traffic = traffic_of([(0, 3, 200, 4), ("side", "out", 30, cycle)])
        expected = stepped_run(network, traffic)
        del expected["hops"]
        assert train_run(network, traffic, 1) == expected, f"met in cycle {cycle}"


def test_long_messages_on_a_loaded_torus():
    """Trains begin again after every meeting; several clocks, repeats and resumptions."""
    for seed in range(6):
        rng = random.Random(seed)
        wires = {"bytes_per_cycle": 8, "latency_cycles": rng.randint(1, 20), "hop_cycles": 1}
        table = {"kind": "torus", "shape": [3, 3], "packet_bytes": 16}
        network = read_network({**table, "link": {**wires, "slots": rng.randint(1, 6)}})
        messages = [
            (*rng.sample(range(9), 2), rng.randint(100, 4000), rng.randrange(2000))
            for _ in range(12)
        ]
        traffic = traffic_of(messages)
        one = packet_run(network, traffic)
        for packets in (1, 16):
            assert train_run(network, traffic, packets) == one, seed


def test_trains_are_used(monkeypatch):
    """The tests above would pass without trains: here one is started, met and settled."""
    seen = []
    original = TrainLinks._settle

    def noted(self, train, tick):
        seen.append(tick)
        original(self, train, tick)

    monkeypatch.setattr(TrainLinks, "_settle", noted)
    network = chain(4)
    simulate(network, traffic_of([(0, 3, 1600, 0), (1, 3, 16, 100)]))
    assert 100 in seen
