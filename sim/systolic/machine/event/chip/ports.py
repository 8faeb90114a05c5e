"""Ports of several cores in one arbiter: banks are numbered through over the cores."""

from __future__ import annotations

from systolic.machine.event.ports.ports import Need, Needs, Port, Stretch, Timeline

BANKS = 1 << 20
"""Numbers of banks, negative ones of exclusions among them, that belong to one core."""


def base_of(core: int) -> int:
    """Return what is added to the banks of a core."""
    return core * BANKS


def core_of(bank: int) -> int:
    """Return the core of a bank, by its number over all cores."""
    return (bank + BANKS // 2) // BANKS


def own_bank(bank: int) -> int:
    """Return the number of a bank in its core."""
    return bank - base_of(core_of(bank))


def shifted_needs(needs: Needs, base: int) -> Needs:
    """Return needs of a core's own ports as needs of the chip's."""
    return tuple(
        [Need(Port(p.buffer, p.bank + base, p.direction), low, high) for p, low, high in needs]
    )


class Shifter:
    """Makes timelines of a core's own ports timelines of the chip's, each once."""

    def __init__(self, core: int) -> None:
        self._base = base_of(core)
        self._known: dict[Timeline, Timeline] = {}
        self._needs: dict[Needs, Needs] = {}

    def timeline(self, own: Timeline) -> Timeline:
        """Return the timeline of a core."""
        if not self._base:
            return own
        found = self._known.get(own)
        if found is None:
            if len(self._known) > MOST_KEPT:
                self._known.clear()
            stretches = [Stretch(s.first, s.stop, self.needs(s.needs)) for s in own]
            found = self._known[own] = Timeline(stretches, own.slots)
        return found

    def needs(self, own: Needs) -> Needs:
        """Return the needs of a core."""
        if not self._base:
            return own
        found = self._needs.get(own)
        if found is None:
            found = self._needs[own] = shifted_needs(own, self._base)
        return found


MOST_KEPT = 1024
