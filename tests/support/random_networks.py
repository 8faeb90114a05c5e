"""Random networks and messages, small enough to be stepped: all kinds of links and rules."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from systolic.errors import SystolicError
from systolic.network.network import Network
from systolic.network.read import read_network
from systolic.network.simulate import MessageTuple, traffic_of
from systolic.network.traffic import Traffic

CLOCKS = "abc"
Tables = dict[str, Any]


def random_link(rng: random.Random, clocks: int) -> Tables:
    """Return the keys of a link; short latencies and few slots make packets wait for each other."""
    link: Tables = {
        "bytes_per_cycle": rng.choice([1, 2, 3, 4, 5, 7, 8, 16]),
        "latency_cycles": rng.randint(1, 9),
        "slots": rng.choice([1, 1, 2, 3, 4, 8]),
        "credit_cycles": rng.randint(1, 4),
        "hop_cycles": rng.randint(0, 4),
    }
    return link | ({"clock": rng.choice(CLOCKS[:clocks])} if clocks > 1 else {})


def _ring(rng: random.Random, clocks: int) -> tuple[Tables, int]:
    count = rng.randint(2, 6)
    return {"kind": "ring", "shape": [count], "link": random_link(rng, clocks)}, count


def _grid(rng: random.Random, clocks: int) -> tuple[Tables, int]:
    shape = [rng.randint(2, 4), rng.randint(1, 3)]
    kind = rng.choice(["mesh", "torus"])
    return {"kind": kind, "shape": shape, "link": random_link(rng, clocks)}, shape[0] * shape[1]


def _clos(rng: random.Random, clocks: int) -> tuple[Tables, int]:
    leaves, hosts = rng.randint(1, 3), rng.randint(2, 3)
    counts = {"leaves": leaves, "hosts": hosts, "spines": rng.randint(1, 2)}
    return {"kind": "clos", **counts, "link": random_link(rng, clocks)}, leaves * hosts


def _forward(rng: random.Random, clocks: int) -> tuple[Tables, int]:
    """Return links of all kinds from lower to higher numbers, so that nothing can deadlock."""
    count = rng.randint(3, 6)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count) if rng.random() < 0.6]
    links = [
        {"source": i, "target": j, "channels": rng.randint(1, 2), **random_link(rng, clocks)}
        for i, j in pairs or [(0, 1)]
    ]
    rng.shuffle(links)
    return {"links": links}, count


def _routed(rng: random.Random, clocks: int) -> tuple[Tables, int]:
    """Return a ring of one direction with a table of routes on any channels; it may deadlock."""
    count, channels = rng.randint(3, 5), rng.randint(1, 3)
    links = [
        {"source": i, "target": (i + 1) % count, "channels": channels, **random_link(rng, clocks)}
        for i in range(count)
    ]
    routes = []
    for source in range(count):
        for length in range(1, count):
            way = [(source + step) % count for step in range(length)]
            chosen = [rng.randrange(channels) for _ in way]
            target = (source + length) % count
            routes.append(
                {"source": source, "target": target, "links": way, "channels": chosen}
            )  # fmt: skip
    return {"links": links, "routes": routes}, count


KINDS: tuple[Callable[[random.Random, int], tuple[Tables, int]], ...] = (
    _ring, _grid, _grid, _clos, _forward, _forward, _routed,
)  # fmt: skip


def random_system(seed: int) -> tuple[Network, Traffic]:
    """Return a network and its messages."""
    rng = random.Random(seed)
    clocks = rng.choice([1, 1, 1, 2, 3])
    tables: Tables = {
        "packet_bytes": rng.choice([4, 8, 16, 24, 40]),
        "header_bytes": rng.choice([0, 0, 1, 4]),
        "forwarding": rng.choice(["cut_through", "cut_through", "store"]),
        "arbitration": rng.choice(["round_robin", "round_robin", "oldest"]),
    }
    if clocks > 1:
        tables["clock"] = dict(zip(CLOCKS, rng.sample([1, 2, 3, 4, 6], clocks), strict=False))
    links, count = rng.choice(KINDS)(rng, clocks)
    network = read_network(tables | links)
    return network, traffic_of(_messages(rng, network, count))


def _messages(rng: random.Random, network: Network, count: int) -> list[MessageTuple]:
    span = rng.choice([1, 20, 100])
    found: list[MessageTuple] = []
    for _ in range(rng.randint(1, 10)):
        source, target = rng.sample(range(count), 2)
        try:
            network.route(source, target)
        except SystolicError:  # the links lead another way
            continue
        size = rng.choice([rng.randint(1, 40), rng.randint(40, 400), rng.randint(1, 200)])
        found.append((source, target, size, rng.randrange(span)))
    return found
