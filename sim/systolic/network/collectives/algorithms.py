"""The algorithms of collectives, each a function from a topology's ranks to a program.

ring: every rank sends to the next one; a chunk is reduced in the order of the ranks on its way.
torus: the same along one dimension after the other, with a barrier after each, also the last; the
data are cut into as many parts as there are dimensions; each part begins with another one, so
that the links of all dimensions work at once. halving_doubling: partners at half the distance in
each step, with half the data (Thakur, Rabenseifner and Gropp, 2005). tree: a binomial tree. direct:
everybody sends to everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from systolic.arrays import Integers
from systolic.errors import ConfigError
from systolic.network.collectives.program import CollectiveProgram, ProgramBuilder, Receipt
from systolic.network.traffic import NO_GATE


@dataclass(frozen=True, slots=True)
class Ranks:
    """Who takes part: the count of ranks; shape: of a torus, x first, else empty; root: sends."""

    count: int
    shape: tuple[int, ...] = ()
    root: int = 0

    @property
    def every(self) -> Integers:
        """Return all ranks."""
        return np.arange(self.count)


class RingWalk:
    """Chunks that go around rings of nodes, step after step; each step waits for the one before.

    ranks: of all nodes; place: of each in its ring; after: the next node. base: first chunk of the
    data that each ring works on; width: chunks that move together. NodeName i of a ring begins with
    chunk i - shift, and after a reduction owns chunk i + 1 - shift.
    """

    def __init__(
        self, builder: ProgramBuilder, size: int, place: Integers, after: Integers, *, shift: int
    ) -> None:
        self.builder, self.size, self.shift = builder, size, shift
        self.place, self.after = place, after
        self.ranks = np.arange(len(place))

    def step(
        self, chunk: Integers, base: Integers | int, width: int, receipt: Receipt, **gates: Integers
    ) -> None:
        """Let each node send a chunk of its ring, counted around it, to the next node."""
        first = base + chunk % self.size * width
        self.builder.send(self.ranks, self.after, first, first + width, receipt, **gates)

    def reduce(self, number: int) -> Integers:
        """Return the chunk that each node sends in a step of a reduction."""
        return self.place - number - self.shift

    def gather(self, number: int) -> Integers:
        """Return the chunk that each node sends in a step of a gathering."""
        return self.place + 1 - self.shift - number


def ring_all_reduce(ranks: Ranks) -> CollectiveProgram:
    """Reduce and scatter around the ring, then gather around it."""
    return _ring(ranks, shift=0, reduces=True, gathers=True)


def ring_reduce_scatter(ranks: Ranks) -> CollectiveProgram:
    """Reduce around the ring, so that rank i is the last of chunk i."""
    return _ring(ranks, shift=1, reduces=True, gathers=False)


def ring_all_gather(ranks: Ranks) -> CollectiveProgram:
    """Pass every chunk around the ring."""
    return _ring(ranks, shift=1, reduces=False, gathers=True)


def _ring(ranks: Ranks, *, shift: int, reduces: bool, gathers: bool) -> CollectiveProgram:
    n, every = ranks.count, ranks.every
    builder = ProgramBuilder(n, n)
    walk = RingWalk(builder, n, every, (every + 1) % n, shift=shift)
    moves = [(walk.reduce(k), Receipt.RECEIVED_FIRST) for k in range(n - 1) if reduces]
    moves += [(walk.gather(k), Receipt.COPY) for k in range(n - 1) if gathers]
    waits = np.full(n, NO_GATE)
    for number, (chunk, receipt) in enumerate(moves):
        is_last = number == len(moves) - 1
        opens = np.full(n, NO_GATE) if is_last else builder.new_gates(n)
        walk.step(chunk, 0, 1, receipt, waits=waits, opens=opens)
        waits = np.roll(opens, 1)  # a node goes on with what the node before it has sent
        builder.next_step()
    return builder.build()


def torus_all_reduce(ranks: Ranks) -> CollectiveProgram:
    """Reduce and scatter along all dimensions, then gather along them in reverse."""
    return _torus(ranks, shift=0, reduces=True, gathers=True)


def torus_reduce_scatter(ranks: Ranks) -> CollectiveProgram:
    """Reduce along all dimensions."""
    return _torus(ranks, shift=1, reduces=True, gathers=False)


def torus_all_gather(ranks: Ranks) -> CollectiveProgram:
    """Gather along all dimensions."""
    return _torus(ranks, shift=1, reduces=False, gathers=True)


def _torus(ranks: Ranks, *, shift: int, reduces: bool, gathers: bool) -> CollectiveProgram:
    """Return phases with barriers between them; part p begins with dimension p."""
    axes = [axis for axis, size in enumerate(ranks.shape) if size > 1]
    parts = [TorusPart(ranks, axes[p:] + axes[:p], p, shift) for p in range(len(axes))]
    builder = ProgramBuilder(ranks.count, len(axes) * ranks.count)
    phases = [(depth, True) for depth in range(len(axes)) if reduces]
    phases += [(depth, False) for depth in reversed(range(len(axes))) if gathers]
    before = NO_GATE
    for depth, is_reduction in phases:
        barrier = builder.new_barrier()
        longest = max(part.sizes[depth] for part in parts)
        waits = [np.full(ranks.count, before) for _ in parts]
        for step in range(longest - 1):
            for number, part in enumerate(parts):
                if step < part.sizes[depth] - 1:
                    waits[number] = part.step(
                        builder, depth, step, is_reduction, (waits[number], barrier)
                    )
            builder.next_step()
        before = barrier
    # What a rank gives or gets is one stretch of the data, with a piece of each part in it.
    is_whole = reduces and gathers
    places = np.concatenate([part.owners * len(parts) + n for n, part in enumerate(parts)])
    return builder.build(None if is_whole else places)


class TorusPart:
    """The part of the data that is reduced along the axes in one order.

    sizes: of the dimensions, in that order. Its chunks are numbered with the first axis slowest, so
    that what moves along an axis is one stretch. owners: by chunk, the rank that it belongs to.
    """

    def __init__(self, ranks: Ranks, axes: list[int], number: int, shift: int) -> None:
        self.axes, self.shift = axes, shift
        self.sizes = [ranks.shape[axis] for axis in axes]
        self.base = number * ranks.count
        strides = [prod(ranks.shape[:axis]) for axis in range(len(ranks.shape))]
        every = ranks.every
        self.places = [every // strides[axis] % ranks.shape[axis] for axis in axes]
        self.after = [
            every + ((place + 1) % size - place) * strides[axis]
            for axis, place, size in zip(axes, self.places, self.sizes, strict=True)
        ]
        self.widths = [prod(self.sizes[depth + 1 :]) for depth in range(len(axes))]
        chunk = sum(place * width for place, width in zip(self.places, self.widths, strict=True))
        self.owners = np.argsort(chunk)

    def step(
        self,
        builder: ProgramBuilder,
        depth: int,
        step: int,
        is_reduction: bool,
        gates: tuple[Integers, int],
    ) -> Integers:
        """Add a step along an axis; return the gates that the next step waits for.

        gates: what this step waits for, and the barrier that the last step counts for.
        """
        waits, barrier = gates
        size, place, after = self.sizes[depth], self.places[depth], self.after[depth]
        walk = RingWalk(builder, size, place, after, shift=self.shift)
        base = np.full(len(place), self.base)
        for earlier in range(depth):
            owned = (self.places[earlier] + 1 - self.shift) % self.sizes[earlier]
            base = base + owned * self.widths[earlier]
        is_last = step == size - 2
        opens = np.full(len(place), barrier) if is_last else builder.new_gates(len(place))
        chunk = walk.reduce(step) if is_reduction else walk.gather(step)
        receipt = Receipt.RECEIVED_FIRST if is_reduction else Receipt.COPY
        walk.step(chunk, base, self.widths[depth], receipt, waits=waits, opens=opens)
        following = np.empty_like(opens)
        following[after] = opens
        return following


def halving_doubling_all_reduce(ranks: Ranks) -> CollectiveProgram:
    """Reduce by halves, then gather by doubles."""
    return _halving_doubling(ranks, reduces=True, gathers=True)


def halving_reduce_scatter(ranks: Ranks) -> CollectiveProgram:
    """Reduce by halves; rank i is left with chunk i."""
    return _halving_doubling(ranks, reduces=True, gathers=False)


def doubling_all_gather(ranks: Ranks) -> CollectiveProgram:
    """Gather by doubles."""
    return _halving_doubling(ranks, reduces=False, gathers=True)


def _halving_doubling(ranks: Ranks, *, reduces: bool, gathers: bool) -> CollectiveProgram:
    n, every = ranks.count, ranks.every
    if n & (n - 1):
        raise ConfigError(
            f"collective: halving_doubling needs a power of two of ranks, found {n}; ring and "
            "direct take any number"
        )
    builder = ProgramBuilder(n, n)
    distances = [1 << bit for bit in range(n.bit_length() - 1)]
    moves = [(d, True) for d in reversed(distances) if reduces]
    moves += [(d, False) for d in distances if gathers]
    waits = np.full(n, NO_GATE)
    for number, (distance, is_reduction) in enumerate(moves):
        partner = every ^ distance
        half = partner if is_reduction else every  # which half is sent
        first = half // distance * distance
        opens = np.full(n, NO_GATE) if number == len(moves) - 1 else builder.new_gates(n)
        receipt = Receipt.ASCENDING if is_reduction else Receipt.COPY
        builder.send(every, partner, first, first + distance, receipt, waits=waits, opens=opens)
        waits = opens[partner]
        builder.next_step()
    return builder.build()


def tree_all_reduce(ranks: Ranks) -> CollectiveProgram:
    """Reduce to rank 0 up a binomial tree, then send the sum down the same tree."""
    builder = ProgramBuilder(ranks.count, 1)
    _up_and_down(builder, ranks, reduces=True)
    return builder.build()


def tree_broadcast(ranks: Ranks) -> CollectiveProgram:
    """Send the data of the root down a binomial tree."""
    builder = ProgramBuilder(ranks.count, 1)
    _up_and_down(builder, ranks, reduces=False)
    return builder.build()


def _up_and_down(builder: ProgramBuilder, ranks: Ranks, *, reduces: bool) -> None:
    """Add both ways of a binomial tree. Its node i is rank (i + root) mod n.

    Node i is reached from node i less its lowest bit. up, down: by node, the gate that opens when
    it has what it sends on that way.
    """
    n = ranks.count
    distances = [1 << bit for bit in range((n - 1).bit_length())]
    is_leaf = np.array([node & 1 or node == n - 1 for node in range(n)], dtype=bool)
    up = np.full(n, NO_GATE)
    if reduces:
        gates = builder.new_gates(n)
        up = np.where(is_leaf, NO_GATE, gates)
        for distance in distances:
            nodes = np.arange(distance, n, 2 * distance)
            _send_tree(
                builder,
                ranks,
                (nodes, nodes - distance),
                Receipt.ASCENDING,
                (up[nodes], gates[nodes - distance]),
            )
            builder.next_step()
    down = builder.new_gates(n)
    down[0] = up[0]
    for distance in reversed(distances):
        targets = np.arange(distance, n, 2 * distance)
        sources = targets - distance
        opens = np.where(is_leaf[targets], NO_GATE, down[targets])
        _send_tree(builder, ranks, (sources, targets), Receipt.COPY, (down[sources], opens))
        builder.next_step()


def _send_tree(
    builder: ProgramBuilder,
    ranks: Ranks,
    ends: tuple[Integers, Integers],
    receipt: Receipt,
    gates: tuple[Integers, Integers],
) -> None:
    sources, targets = ((nodes + ranks.root) % ranks.count for nodes in ends)
    builder.send(sources, targets, 0, 1, receipt, waits=gates[0], opens=gates[1])


def direct_all_reduce(ranks: Ranks) -> CollectiveProgram:
    """Everybody sends chunk j to rank j, which adds, and sends the sum to everybody."""
    builder = ProgramBuilder(ranks.count, ranks.count)
    gates = builder.new_gates(ranks.count)
    _everybody(builder, ranks, Receipt.ASCENDING, sends_own=False, opens=gates)
    builder.next_step()
    _everybody(builder, ranks, Receipt.COPY, sends_own=True, waits=gates)
    return builder.build()


def direct_reduce_scatter(ranks: Ranks) -> CollectiveProgram:
    """Everybody sends chunk j to rank j, which adds."""
    builder = ProgramBuilder(ranks.count, ranks.count)
    _everybody(builder, ranks, Receipt.ASCENDING, sends_own=False)
    return builder.build()


def direct_all_gather(ranks: Ranks) -> CollectiveProgram:
    """Everybody sends its chunk to everybody."""
    builder = ProgramBuilder(ranks.count, ranks.count)
    _everybody(builder, ranks, Receipt.COPY, sends_own=True)
    return builder.build()


def direct_all_to_all(ranks: Ranks) -> CollectiveProgram:
    """Everybody sends chunk j to rank j, where it becomes the chunk of the sender's number."""
    builder = ProgramBuilder(ranks.count, ranks.count)
    _everybody(builder, ranks, Receipt.COPY, sends_own=False, lands_at_source=True)
    return builder.build()


def _everybody(
    builder: ProgramBuilder,
    ranks: Ranks,
    receipt: Receipt,
    *,
    sends_own: bool,
    lands_at_source: bool = False,
    waits: Integers | None = None,
    opens: Integers | None = None,
) -> None:
    """Let each rank send to the next, the one after that, and so on, all at once.

    sends_own: whether its own chunk or the target's. waits, opens: by rank, the gate that its sends
    wait for, and the gate that counts what reaches it.
    """
    every = ranks.every
    for distance in range(1, ranks.count):
        targets = (every + distance) % ranks.count
        chunk = every if sends_own else targets
        builder.send(
            every,
            targets,
            chunk,
            chunk + 1,
            receipt,
            waits=NO_GATE if waits is None else waits,
            opens=NO_GATE if opens is None else opens[targets],
            lands=every if lands_at_source else None,
        )


def ring_broadcast(ranks: Ranks) -> CollectiveProgram:
    """Pass the root's data from rank to rank; slices follow one another."""
    n, builder = ranks.count, ProgramBuilder(ranks.count, 1)
    gates = builder.new_gates(n)
    for number in range(n - 1):
        source = np.array([(ranks.root + number) % n])
        target = (source + 1) % n
        waits = gates[number : number + 1] if number else NO_GATE
        opens = gates[number + 1 : number + 2] if number < n - 2 else NO_GATE
        builder.send(source, target, 0, 1, Receipt.COPY, waits=waits, opens=opens)
        builder.next_step()
    return builder.build()


def direct_broadcast(ranks: Ranks) -> CollectiveProgram:
    """Let the root send to everybody."""
    n, builder = ranks.count, ProgramBuilder(ranks.count, 1)
    targets = (ranks.root + np.arange(1, n)) % n
    builder.send(np.full(n - 1, ranks.root), targets, 0, 1, Receipt.COPY)
    return builder.build()


def send_receive(ranks: Ranks) -> CollectiveProgram:
    """Let every rank send its data to the next, and receive the data of the one before."""
    builder = ProgramBuilder(ranks.count, 1)
    builder.send(ranks.every, (ranks.every + 1) % ranks.count, 0, 1, Receipt.COPY)
    return builder.build()


ALGORITHMS: dict[str, dict[str, Callable[[Ranks], CollectiveProgram]]] = {
    "all_reduce": {
        "ring": ring_all_reduce,
        "torus": torus_all_reduce,
        "halving_doubling": halving_doubling_all_reduce,
        "tree": tree_all_reduce,
        "direct": direct_all_reduce,
    },
    "all_gather": {
        "ring": ring_all_gather,
        "torus": torus_all_gather,
        "halving_doubling": doubling_all_gather,
        "direct": direct_all_gather,
    },
    "reduce_scatter": {
        "ring": ring_reduce_scatter,
        "torus": torus_reduce_scatter,
        "halving_doubling": halving_reduce_scatter,
        "direct": direct_reduce_scatter,
    },
    "broadcast": {"ring": ring_broadcast, "tree": tree_broadcast, "direct": direct_broadcast},
    "all_to_all": {"direct": direct_all_to_all},
    "send_receive": {"direct": send_receive},
}
"""The algorithms of each operation; the first is the default."""
