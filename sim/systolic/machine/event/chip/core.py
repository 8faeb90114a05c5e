"""What a core or a processor has from the chip it is on: names, ports, ways of posts."""

from __future__ import annotations

from collections.abc import Callable

from systolic.hw.spec.places import ChipPlace, core, joined
from systolic.isa.joint import JointProgram
from systolic.machine.event.chip.ports import Shifter, core_of
from systolic.machine.event.chip.semaphores import ChipSemaphores
from systolic.machine.event.ports.stream import Lost
from systolic.machine.event.unit import CoreOfSeveral


class CoreOnChip(CoreOfSeveral):
    """A core or processor of a chip, while one of its programs runs."""

    def __init__(
        self,
        joint: JointProgram,
        place: ChipPlace,
        *,
        ends_matter: bool,
        semaphores: ChipSemaphores,
        on_end: Callable[[int, int], None],
    ) -> None:
        chip = joint.chip
        firsts = [each.port_priority.index("dma") for each in chip.core_chips]
        own = firsts[place.number] if place.kind == "core" else firsts[0]
        self.place = place
        self.later = max(firsts) - own
        self.ends_matter = ends_matter
        self.ports = Shifter(place.number if place.kind == "core" else 0)
        self._joint, self._prefix = joint, f"{place}."
        self._hops: dict[int, int] = {}
        self._semaphores, self._on_end = semaphores, on_end

    def note_post(self, made: int, seen: int, unit: str, semaphore: int) -> None:
        """Note a post made at a tick, and visible at another."""
        self._semaphores.note(made, seen, unit, semaphore)

    def end(self, index: int, end: int) -> None:
        """Note the end of an instruction of its program."""
        self._on_end(index, end)

    def named(self, queue: str) -> str:
        """Return the name that a queue has on the chip."""
        return str(self.place) if queue == str(self.place) else self._prefix + queue

    def winner(self, lost: Lost) -> str:
        """Return the name that the client of a port has on the chip, which says the port's core."""
        return joined(core(core_of(lost.port.bank)), lost.winner)

    def hop_ticks(self, semaphore: int) -> int:
        """Return the ticks that a post takes longer than within the core."""
        found = self._hops.get(semaphore)
        if found is None:
            hops = self._joint.hops(self.place, semaphore)
            found = self._hops[semaphore] = hops * self._joint.chip.post_hop_ticks
        return found
