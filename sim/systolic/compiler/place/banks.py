"""The best banks of the state buffer for each matrix, so that units seldom meet at a port.

Every bank has one read and one write port. Stationary and moving tiles are read in the same cycles.
Tiles to be turned arrive while turned tiles are written. Finished tiles are written, and leave,
while operands arrive. So each of these roles has banks of its own, if there are enough. The tiles
of a role take its banks in turn, so that two queues that bring two tiles seldom write to one bank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from systolic.compiler.ir.nodes import Layers
from systolic.compiler.place.free_bytes import End, Wish
from systolic.hw.spec import Chip
from systolic.spans import Interval

Role = Literal["stationary", "turned", "result", "moving"]
ROLES: tuple[Role, ...] = ("stationary", "turned", "result", "moving")
"""The roles, in the order of their banks. turned: matrices to be turned, not their results."""


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
        self._turn = dict.fromkeys(ROLES, 0)

    def wish_of(self, matrix: str) -> Wish:
        """Return the wish for the place of a matrix's next tile."""
        return self.wish(self._roles.get(matrix, "result"))

    def wish_of_all(self, matrix: str) -> Wish:
        """Return the wish for the place of a whole matrix: anywhere in the banks of its role."""
        role = self._roles.get(matrix, "result")
        ring = self._rings.get(role, Ring())
        banks = Interval(ring.first * ring.bank_bytes, (ring.first + ring.count) * ring.bank_bytes)
        return replace(self.wish(role), ranges=(banks,))

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
        if node.kind == "turn":
            roles.setdefault(holders[node.inputs[0]], "turned")
    for node in layers.nodes:
        if node.kind == "multiply":
            roles[holders[node.inputs[0]]] = "stationary"
    for node in layers.nodes:
        if node.kind == "multiply":
            roles[holders[node.inputs[1]]] = "moving"
    for matrix in layers.matrices:
        roles.setdefault(matrix.name, "result")
    return roles


def _shares(layers: Layers, roles: dict[str, Role], chip: Chip) -> dict[Role, Ring]:
    """Return the banks of each role; none if there are too few banks.

    Each role gets one bank. Every further bank goes to the role with the most bytes in each bank.
    """
    banks, size = chip.state_buffer.banks, chip.state_buffer.bank_bytes
    load = _most_bytes(layers, roles)
    if any(node.kind == "turn" for node in layers.nodes):
        load.setdefault("moving", 0)  # the identity is read while results are written and stored
    if not load or banks < len(load):
        return {}
    first, found = 0, {}
    for role, many in _dealt({role: load[role] for role in ROLES if role in load}, banks).items():
        found[role] = Ring(first, many, size)
        first += many
    return found


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
        if matrix.source == "dram":
            load[role] += size
            continue
        changes = steps.setdefault(role, {})
        end = len(layers.nodes) if matrix.keep else last.get(matrix.name, made.get(matrix.name, 0))
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
