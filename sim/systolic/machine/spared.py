"""Costs that a machine is spared although no chip file can take them away, for "what if".

Only the event engine knows of them, and only for times: there is no such hardware.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spared:
    """ports: no access is ever refused a port. loads: weights are loaded in no time, by no port."""

    ports: bool = False
    loads: bool = False


NOTHING = Spared()
