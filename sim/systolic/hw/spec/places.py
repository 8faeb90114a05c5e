"""Places on a chip of several cores: how a core, a processor and a controller are named.

A place is written as programs write it: ``core1``, ``processor0``. "" is the place of the program
itself.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

PlaceKind = Literal["core", "processor", "controller"]
OWN = ""
"""The place of the core or processor that a program is of."""
_PLACE = re.compile(r"(core|processor)([0-9]{1,4})")


class ChipPlace(NamedTuple):
    """A core, a processor or a controller, by its number."""

    kind: PlaceKind
    number: int

    def __str__(self) -> str:
        """Return its name, ``core1``."""
        return f"{self.kind}{self.number}"


def core(number: int) -> ChipPlace:
    """Return the place of a core."""
    return ChipPlace("core", number)


def controller(number: int) -> ChipPlace:
    """Return the place of a DRAM controller."""
    return ChipPlace("controller", number)


def processor(number: int) -> ChipPlace:
    """Return the place of a processor."""
    return ChipPlace("processor", number)


def place_of(name: str) -> ChipPlace | None:
    """Return the core or processor of that name; None if it is no such name."""
    found = _PLACE.fullmatch(name)
    if found is None or str(int(found[2])) != found[2]:
        return None
    return core(int(found[2])) if found[1] == "core" else processor(int(found[2]))


def joined(place: ChipPlace | str, name: str) -> str:
    """Return the name that something of a place has on the chip: ``core1.pe_array``."""
    return f"{place}.{name}"


def split(name: str) -> tuple[str, str]:
    """Return the place ("" if there is none) and the name of something on a chip.

    ``core1.dma0`` is ``dma0`` of ``core1``; ``processor0`` is a place itself.
    """
    head, dot, rest = name.partition(".")
    return (head, rest) if dot and place_of(head) is not None else (OWN, name)
