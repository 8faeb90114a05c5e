"""`systolic.network.collective`: how many cycles a collective takes on a network."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.arrays import Integers
from systolic.errors import ConfigError, perhaps, shortened
from systolic.network.collectives.algorithms import ALGORITHMS, Ranks
from systolic.network.collectives.program import CollectiveProgram
from systolic.network.network import Network
from systolic.network.outcome import NetworkOutcome
from systolic.network.read import read_network
from systolic.network.simulate import NetworkEngine, engine_of
from systolic.network.spec import NodeName
from systolic.network.traffic import NO_GATE, Traffic


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective to be run; see `collective`. at_cycle: when it starts."""

    operation: str
    size_bytes: int
    algorithm: str = ""
    slices: int = 1
    alpha_cycles: int = 0
    root: int = 0
    at_cycle: int = 0


def collective(
    network: Mapping[str, Any] | Network,
    operation: str,
    algorithm: str = "",
    *,
    size_bytes: int,
    slices: int = 1,
    alpha_cycles: int = 0,
    root: int = 0,
    engine: NetworkEngine = "event",
) -> int:
    """Return the cycle of the last arrival of a collective that starts in cycle 0.

    A slice of a chunk is one message, and one packet if the network gives no `packet_bytes`. An
    algorithm with barriers ends with one, so that `alpha_cycles` after the last arrival count too.

    Args:
        network: as for `run`; ranks are its nodes in order, of a Clos network its hosts.
        operation: all_reduce, all_gather, reduce_scatter, broadcast, all_to_all or send_receive.
        algorithm: ring, torus, halving_doubling, tree or direct (default: the operation's first).
        size_bytes: of the data of a rank: its input, or, of an all_gather, its output.
        slices: parts of every chunk that go their way by themselves.
        alpha_cycles: from an arrival to the next send.
        root: the rank whose data a broadcast sends.
        engine: "event" or "stepped".

    Raises:
        ConfigError: an unknown operation or algorithm, or one that does not fit the network.

    """
    asked = Collective(operation, size_bytes, algorithm, slices, alpha_cycles, root)
    return outcome_of(read_network(network), asked, engine).ticks


def outcome_of(network: Network, asked: Collective, engine: str = "event") -> NetworkOutcome:
    """Return what the network does with a collective; arrivals are not kept."""
    simulate = engine_of(engine)
    traffic = traffic_of_collective(network, asked)
    return (
        simulate(network, traffic)
        if engine == "stepped"
        else simulate(network, traffic, arrivals=False)
    )


def program_of(asked: Collective, ranks: int, shape: tuple[int, ...]) -> CollectiveProgram:
    """Return the program of a collective for that many ranks; shape: of a torus, else empty."""
    if asked.operation not in ALGORITHMS:
        raise ConfigError(
            f'collective: no operation "{shortened(asked.operation)}" (there are: '
            f"{', '.join(ALGORITHMS)}){perhaps(asked.operation, ALGORITHMS)}"
        )
    known = ALGORITHMS[asked.operation]
    algorithm = asked.algorithm or next(iter(known))
    if algorithm not in known:
        raise ConfigError(
            f'collective: no algorithm "{shortened(algorithm)}" for {asked.operation} (there are: '
            f"{', '.join(known)}){perhaps(algorithm, known)}"
        )
    if algorithm == "torus" and not shape:
        raise ConfigError("collective: torus needs a network of kind torus")
    for name, value, least in (
        ("size_bytes", asked.size_bytes, 1),
        ("slices", asked.slices, 1),
        ("alpha_cycles", asked.alpha_cycles, 0),
    ):
        if not isinstance(value, int) or value < least:
            raise ConfigError(f"collective: {name}: needs an integer >= {least}, found {value!r}")
    if ranks < 2:
        raise ConfigError(f"collective: needs two ranks or more, found {ranks}")
    if not 0 <= asked.root < ranks:
        raise ConfigError(f"collective: root: no rank {asked.root} (there are 0 to {ranks - 1})")
    return known[algorithm](Ranks(ranks, shape, asked.root))


def slice_bounds(size: int, chunks: int, slices: int) -> Integers:
    """Return where each slice of each chunk begins, and where the last one ends.

    Chunks, and slices of a chunk, differ by one at most. Shape: chunks x slices + 1.
    """
    chunk = np.arange(chunks + 1) * size // chunks
    inner = np.arange(slices) * (chunk[1:, None] - chunk[:-1, None]) // slices
    return np.append((chunk[:-1, None] + inner).ravel(), size)


def traffic_of_collective(network: Network, asked: Collective) -> Traffic:
    """Return the messages of a collective: of each send one for each slice."""
    hosts = network.hosts
    shape = network.shape if network.kind in ("torus", "ring") else ()
    program = program_of(asked, len(hosts), shape)
    slices = asked.slices
    bounds = slice_bounds(asked.size_bytes, program.chunks, slices)
    sizes = np.diff(bounds).reshape(program.chunks, slices)[program.places]
    if not sizes.all():
        raise ConfigError(
            f"collective: size_bytes: {asked.size_bytes} bytes are cut into {program.chunks} "
            f"chunks of {slices} slices, which needs {program.chunks * slices} bytes or more"
        )
    before = np.vstack([np.zeros((1, slices), np.int64), np.cumsum(sizes, axis=0)])
    message_bytes = (before[program.stop] - before[program.first]).ravel()
    return Traffic(
        sources=_nodes(hosts, program.sources, slices),
        targets=_nodes(hosts, program.targets, slices),
        sizes_bytes=_column(message_bytes),
        entries=array("q", [asked.at_cycle]) * len(message_bytes) if asked.at_cycle else (),
        waits=_column(_sliced_gates(program.waits, program.gates, slices)),
        opens=_column(_sliced_gates(program.opens, program.gates, slices)),
        delays=array("q", [asked.alpha_cycles]) * (program.gates * slices + program.barriers),
        carries=_column(np.repeat(program.first, slices)),
    )


def _sliced_gates(gates: Integers, own: int, slices: int) -> Integers:
    """Return the gates of all slices: each slice has its own, but for the barriers."""
    each = gates[:, None] * slices + np.arange(slices)
    barrier = gates[:, None] + own * (slices - 1)
    return np.where(
        gates[:, None] == NO_GATE, NO_GATE, np.where(gates[:, None] < own, each, barrier)
    ).ravel()


def _nodes(hosts: Sequence[NodeName], ranks: Integers, slices: int) -> Sequence[NodeName]:
    every = np.repeat(ranks, slices)
    if list(hosts) == list(range(len(hosts))):
        return _column(every)
    return [hosts[rank] for rank in every.tolist()]


def _column(values: Integers) -> Sequence[int]:
    """Return a column as Python's integers, in little memory: a collective may have millions."""
    return array("q", np.ascontiguousarray(values, dtype=np.int64).tobytes())
