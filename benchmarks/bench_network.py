"""Networks: CPU time of a packet-hop, of a shipped system as a process, and of a large ring.

    python benchmarks/bench_network.py [--ring-nodes 1024]

Three measurements, in CPU seconds: a loaded torus of 16 x 16 nodes, where packets meet; `systolic
run configs/systems/torus_1024.toml` as a process; an all-reduce of a MiB for each node around a
ring of packets of 4 KiB, times only, whose messages are trains. The first two are also given as
multiples of a loop of a million additions, which says how fast the machine was just then.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from systolic.network.collectives.collective import Collective, outcome_of
from systolic.network.event.simulate import simulate
from systolic.network.read import read_network
from systolic.network.traffic import Traffic

SYSTEM = Path(__file__).resolve().parents[1] / "configs" / "systems" / "torus_1024.toml"
LINK = {"bytes_per_cycle": 64, "latency_cycles": 20, "slots": 8, "hop_cycles": 2}


def loop_seconds() -> float:
    """Return the CPU time of a million additions."""
    begun, total = time.process_time(), 0
    for number in range(1_000_000):
        total += number
    return time.process_time() - begun


def loaded_torus() -> tuple[int, float]:
    """Return the packet-hops of random messages on a torus, and the CPU time of the run."""
    network = read_network({"kind": "torus", "shape": [16, 16], "link": LINK, "packet_bytes": 256})
    rng = random.Random(1)
    count = 20_000
    sources = [rng.randrange(256) for _ in range(count)]
    targets = [(source + rng.randrange(1, 256)) % 256 for source in sources]
    sizes = [rng.randrange(1, 2048) for _ in range(count)]
    traffic = Traffic(sources, targets, sizes, [rng.randrange(20_000) for _ in range(count)])
    begun = time.process_time()
    outcome = simulate(network, traffic)
    return outcome.packet_hops, time.process_time() - begun


def process_seconds() -> float:
    """Return the CPU time of `systolic run` of the shipped torus, from start to exit."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "systolic", "run", str(SYSTEM), "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ring(nodes: int) -> tuple[int, float]:
    """Return the message-hops of a ring all-reduce of a MiB a chunk, and the CPU time."""
    wires = {"bytes_per_cycle": 64, "latency_cycles": 500, "slots": 16}
    network = read_network({"kind": "ring", "shape": [nodes], "link": wires, "packet_bytes": 4096})
    begun = time.process_time()
    outcome_of(network, Collective("all_reduce", nodes << 20, "ring", alpha_cycles=900))
    return 2 * (nodes - 1) * nodes, time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ring-nodes", type=int, default=1024)
    nodes = parser.parse_args().ring_nodes
    loop = min(loop_seconds() for _ in range(5))
    hops, seconds = loaded_torus()
    each = seconds / hops
    print(f"a million additions: {loop:.3f} s")
    print(
        f"loaded torus: {hops:,} packet-hops, {each * 1e6:.1f} us each "
        f"({each / loop * 1e6:.0f} additions)"
    )
    seconds = process_seconds()
    print(f"torus_1024 as a process: {seconds:.1f} s ({seconds / loop:.0f} million additions)")
    messages, seconds = ring(nodes)
    print(f"ring of {nodes:,} nodes: {messages:,} message-hops in {seconds:.1f} s")


if __name__ == "__main__":
    main()
