"""The event engine: one simpy process per unit, one event per instruction, never per cycle."""

from systolic.machine.event.machine import run_event

__all__ = ["run_event"]
