"""The best banks of the state buffer for each matrix, so that units seldom meet at a port.

Every bank has one read and one write port. Stationary and moving tiles are read in the same cycles.
Tiles to be turned arrive while turned tiles are written. Finished tiles are written, and leave,
while operands arrive. So each of these roles has banks of its own, if there are enough. The tiles
of a role take its banks in turn, so that two queues that bring two tiles seldom write to one bank.

Two kinds of results keep out of the banks of the others. A matrix of few columns, such as the
largest elements of rows, is written by short instructions of one engine while the other one streams
a result: its write would wait for the end of the stream. A repeated row, such as a norm's factors,
is read beside a result. The former lie with stationary tiles, the latter with what is turned.

Among images, whose tiles are large, only columns that engines read once per lane, such as biases,
keep out of the banks of results: one such read would wait for the end of what another engine reads
there. What engines go over while a product makes more of it keeps out of the banks of what the
product streams, and of what is added to its sums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from systolic.compiler.ir.nodes import (
    ConvertNode,
    Layers,
    MultiplyNode,
    RepeatNode,
    StoreNode,
    TurnNode,
)
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.place.free_bytes import End, Wish
from systolic.hw.spec import Chip
from systolic.spans import Interval

Role = Literal["stationary", "turned", "copied", "result", "moving"]
ROLES: tuple[Role, ...] = ("stationary", "turned", "copied", "result", "moving")
"""The roles, in the order of their banks. turned: matrices to be turned, not their results.
copied: what engines copy or cast in a move from DRAM, while other copies are written.
"""
MOVING = (ConvertNode, TurnNode, StoreNode)
"""The kinds of nodes of moves from DRAM to DRAM."""
OF_IMAGES = 2
"""The least banks of moving tiles among images."""
FEW_COLUMNS = 8
"""The most columns of a result that lies apart from others."""


@dataclass(frozen=True, slots=True)
class Ring:
    """The byte ranges of neighbouring banks, counted round from the `turn`-th; none are listed."""

    first: int = 0
    count: int = 0
    bank_bytes: int = 0
    turn: int = 0

    def __iter__(self) -> Iterator[Interval]:
        for number in range(self.count):
            bank = self.first + (self.turn + number) % self.count
            yield Interval(bank * self.bank_bytes, (bank + 1) * self.bank_bytes)


class BanksByRole:
    """The banks of each role in a graph, and which bank of a role is the next."""

    def __init__(self, layers: Layers, chip: Chip) -> None:
        self._roles = _roles(layers)
        self._rings = _shares(layers, self._roles, chip)
        self._apart = _kept_apart(layers, self._roles)
        self._of_lanes = _read_once_per_lane(layers)
        self._turn = dict.fromkeys(ROLES, 0)
        self._besides = _besides(layers)
        self._bank_bytes = chip.state_buffer.bank_bytes

    def wish_of(self, matrix: str) -> Wish:
        """Return the wish for the place of a matrix's next tile."""
        if matrix in self._of_lanes and "stationary" in self._rings:
            return Wish("low", self._rings["stationary"])
        if (apart := self._apart.get(matrix)) in self._rings:
            return replace(self.wish(apart), end="high")
        return self.wish(self._roles.get(matrix, "result"))

    def wish_of_all(self, matrix: str) -> Wish:
        """Return the wish for the place of a whole matrix: anywhere in the banks of its role."""
        role = self._roles.get(matrix, "result")
        ring = self._rings.get(role, Ring())
        banks = Interval(ring.first * ring.bank_bytes, (ring.first + ring.count) * ring.bank_bytes)
        return replace(self.wish(role), ranges=(banks,))

    def besides(self, matrix: str) -> tuple[str, ...]:
        """Return the matrices that are read while the array streams this one, or an engine does."""
        return self._besides.get(matrix, ())

    def apart(self, matrix: str, wish: Wish, taken: Collection[int]) -> Wish:
        """Return a wish that leaves out banks in which tiles lie that are read at the same time.

        Of the other banks the wish's come first, then those that hold few tiles which are
        streamed. What engines read may lie with stationary tiles too, which are read in loads only.
        The wish stays as it is if every bank is taken.
        """
        roles: tuple[Role, ...] = ("turned", "result")
        if self._roles.get(matrix, "result") == "result":
            roles = (*roles, "stationary")
        rings = [self._rings[role] for role in roles if role in self._rings]
        ranges = [*wish.ranges, *(bank for ring in rings for bank in ring)]
        free = [bank for bank in ranges if bank.first // self._bank_bytes not in taken]
        return replace(wish, ranges=tuple(free)) if free else wish

    def wish(self, role: Role) -> Wish:
        """Return the wish for the place of a role's next tile: the banks of the role in turn."""
        ring = self._rings.get(role, Ring())
        turn = self._turn[role]
        self._turn[role] += 1
        end: End = "high" if role == "moving" else "low"
        return Wish(end, replace(ring, turn=turn))


def _roles(layers: Layers) -> dict[str, Role]:
    """Return the role of each matrix: the use for which it is read."""
    roles: dict[str, Role] = {}
    holders = {matrix.name: matrix.holder for matrix in layers.matrices}
    for node in layers.nodes:
        if isinstance(node, TurnNode):
            roles.setdefault(holders[node.inputs[0]], "turned")
    for node in layers.nodes:
        if isinstance(node, MultiplyNode):
            roles[holders[node.inputs[0]]] = "stationary"
    for node in layers.nodes:
        if isinstance(node, MultiplyNode):
            roles[holders[node.inputs[1]]] = "moving"
    moves = all(isinstance(node, MOVING) for node in layers.nodes)
    if layers.dram and moves and any(isinstance(node, TurnNode) for node in layers.nodes):
        for node in layers.nodes:
            if isinstance(node, ConvertNode):
                roles.setdefault(holders[node.inputs[0]], "copied")
    for matrix in layers.matrices:
        roles.setdefault(matrix.name, "result")
    return roles


def _kept_apart(layers: Layers, roles: dict[str, Role]) -> dict[str, Role]:
    """Return the results that keep out of the banks of the others, and whose banks they take.

    None do among images, whose tiles are large: they would take the room of what comes from DRAM.
    """
    if any(matrix.block is not None for matrix in layers.matrices):
        return {}
    results = [m for m in layers.matrices if roles[m.name] == "result" and m.window is None]
    few = [m for m in results if m.source.kind == "node" and m.cols <= FEW_COLUMNS]
    found: dict[str, Role] = dict.fromkeys((matrix.name for matrix in few), "stationary")
    repeated = {node.output for node in layers.nodes if isinstance(node, RepeatNode)}
    return found | {m.name: "turned" for m in results if m.name in repeated}


def _read_once_per_lane(layers: Layers) -> frozenset[str]:
    """Return the results, among images, that engines read by one element for each lane."""
    if all(matrix.block is None for matrix in layers.matrices):
        return frozenset()
    matrices = {matrix.name: matrix for matrix in layers.matrices}
    taken = {matrices[name] for node in layers.nodes for _, name in node.others}
    held = {matrices[matrix.holder] for matrix in taken if matrix.cols == 1}
    return frozenset(m.name for m in held if m.source.kind == "node" and m.window is None)


def _besides(layers: Layers) -> dict[str, tuple[str, ...]]:
    """Return, for what products stream, the matrices with which engines take their sums out.

    And for what products of images make, if engines go over it, what is read meanwhile: these
    matrices, and what is streamed.
    """
    matrices = {matrix.name: matrix for matrix in layers.matrices}
    found: dict[str, tuple[str, ...]] = {}
    gone_over = {node.inputs[0] for node in layers.nodes if isinstance(node, ConvertNode)}
    for node in layers.nodes:
        if isinstance(node, MultiplyNode):
            streamed = matrices[node.inputs[1]].holder
            read = {matrices[name].holder for _, name in node.others if matrices[name].cols > 1}
            found[streamed] = (*found.get(streamed, ()), *sorted(read - {streamed}))
            made = matrices[node.output]
            if made.name in gone_over and made.block is not None and made.window is None:
                found[made.name] = tuple(sorted({*read, streamed} - {made.name}))
    return {name: read for name, read in found.items() if read}


def _shares(layers: Layers, roles: dict[str, Role], chip: Chip) -> dict[Role, Ring]:
    """Return the banks of each role; none if there are too few banks.

    Each role gets one bank. Every further bank goes to the role with the most bytes in each bank.
    """
    banks, size = chip.state_buffer.banks, chip.state_buffer.bank_bytes
    load = _most_bytes(layers, roles)
    if any(isinstance(node, TurnNode) for node in layers.nodes):
        load.setdefault("moving", 0)  # the identity is read while results are written and stored
    if not load or banks < len(load):
        return {}
    first, found = 0, {}
    count = _dealt({role: load[role] for role in ROLES if role in load}, banks)
    if any(isinstance(matrix.window, PixelWindow) for matrix in layers.matrices):
        _leave_to_images(count)
    for role, many in count.items():
        found[role] = Ring(first, many, size)
        first += many
    return found


def _leave_to_images(count: dict[Role, int]) -> None:
    """Let moving tiles have at least two banks, of the role that has most, if it keeps as many.

    The array streams the images of one layer while images of the next are written.
    """
    most = max(count, key=lambda role: count[role])
    wanted = OF_IMAGES - count.get("moving", OF_IMAGES)
    if 0 < wanted <= count[most] - OF_IMAGES:
        count["moving"], count[most] = OF_IMAGES, count[most] - wanted


def _most_bytes(layers: Layers, roles: dict[str, Role]) -> dict[Role, int]:
    """Return the most bytes of each role that want to be on the chip together.

    A matrix that a node makes is on the chip from that node to the last node that reads it. A
    matrix from DRAM can come as early as there is room, so all such matrices count at all times.
    """
    last = {name: number for number, node in enumerate(layers.nodes) for name in node.inputs}
    made = {
        name: number for number, node in reversed([*enumerate(layers.nodes)]) for name in node.made
    }
    load: dict[Role, int] = {}
    steps: dict[Role, dict[int, int]] = {}
    for matrix in layers.matrices:
        if matrix.window is not None:
            continue
        role, size = roles[matrix.name], matrix.size_bytes
        load.setdefault(role, 0)
        if matrix.source.kind == "dram":
            load[role] += size
            continue
        changes = steps.setdefault(role, {})
        end = (
            len(layers.nodes)
            if matrix.lies.keep
            else last.get(matrix.name, made.get(matrix.name, 0))
        )
        for number, change in ((made.get(matrix.name, 0), size), (end + 1, -size)):
            changes[number] = changes.get(number, 0) + change
    for role, changes in steps.items():
        load[role] += max(accumulate(changes[number] for number in sorted(changes)))
    return load


def _dealt(load: dict[Role, int], banks: int) -> dict[Role, int]:
    """Return how many banks each role gets.

    Dealt one by one, as `_shares` describes it, each role would get at least its share of the banks
    beyond the first of each role: when a role gets its last bank, its load / count is no less than
    any other role's load / (count + 1). So these shares are dealt at once, and the rest one by one.
    """
    total, shared = sum(load.values()), max(0, banks - len(load))
    count = {role: max(1, -(-shared * each // total)) for role, each in load.items()}
    for _ in range(banks - sum(count.values())):
        count[max(count, key=lambda role: load[role] / count[role])] += 1
    return count
