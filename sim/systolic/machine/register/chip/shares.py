"""Who holds which shares of pools and of controllers, and what a share is worth in a cycle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from systolic.hw.spec import MultiCoreChip
from systolic.hw.spec.places import ChipPlace


@dataclass(frozen=True)
class RunShares:
    """The shares of a copy: of pools, how many of each; of controllers, in the copy's order."""

    pools: Counter[str]
    controllers: tuple[int, ...]


def holding(chip: MultiCoreChip, places: tuple[ChipPlace, ...], *, accumulates: bool) -> RunShares:
    """Return what a run holds between these endpoints, the first being its source."""
    source, *targets = places
    pools = dict[str, int]()
    for target in targets:
        way = chip.way(source, target)
        assert way is not None, "legal"
        pools |= dict.fromkeys(way.pools, 1)
        if accumulates and way.pools:
            pools[way.pools[-1]] = 2
    held = [place for place in places if _has_shares(chip, place)]
    if accumulates and _has_shares(chip, targets[0]):
        held.append(targets[0])
    return RunShares(Counter(pools), tuple(place.number for place in held))


def _has_shares(chip: MultiCoreChip, place: ChipPlace) -> bool:
    """Return whether a place is a controller whose bandwidth is shared; bursts share no rate."""
    is_controller = place.kind == "controller"
    return is_controller and chip.controller_drams[place.number].organisation is None


class SharesHeld:
    """The holdings of all DMA queues of a chip, by their numbers, each until a tick."""

    def __init__(self, chip: MultiCoreChip) -> None:
        self._chip = chip
        self._held: dict[int, tuple[int, RunShares]] = {}

    def hold(self, queue: int, until: int, held: RunShares) -> None:
        """Note what a queue holds until a tick, from now on."""
        self._held[queue] = until, held

    def of_pools(self, held: RunShares, tick: int, stop: int) -> list[int]:
        """Return the bytes of each share of a pool in a cycle of a queue, tick <= t < stop."""
        wires = self._chip.interconnect
        if wires is None:
            return []
        period = self._chip.interconnect_period
        cycles = -(-stop // period) - -(-tick // period)
        active = [other for until, other in self._held.values() if until > tick]
        return [
            wires.bytes_per_cycle // sum(other.pools[pool] for other in active) * cycles
            for pool in held.pools
        ]

    def of_controllers(self, queue: int, held: RunShares, tick: int, cycle: int) -> list[int]:
        """Return the bytes of each share of a controller in the queue's own cycle of that number.

        SharesHeld stand in the order of the queues, a copy's from its source to its target.
        """
        seen: Counter[int] = Counter()
        found = []
        for number in held.controllers:
            total = self._chip.controller_drams[number].bytes_per_cycle
            count, before = self._count(number, queue, tick)
            place = before + seen[number]
            seen[number] += 1
            each, over = divmod(total, count)
            found.append(each + ((place - cycle * over) % count < over))
        return found

    def is_short(self, held: RunShares, queue: int, tick: int) -> bool:
        """Return whether a controller has fewer bytes in a cycle than there are shares of it."""
        return any(
            self._chip.controller_drams[number].bytes_per_cycle
            < self._count(number, queue, tick)[0]
            for number in held.controllers
        )

    def _count(self, number: int, queue: int, tick: int) -> tuple[int, int]:
        """Return a controller's shares held at a tick: by all queues, and by queues before."""
        held = [
            (other, holding.controllers.count(number))
            for other, (until, holding) in self._held.items()
            if until > tick
        ]
        return sum(n for _, n in held), sum(n for other, n in held if other < queue)
