"""The register engine: every register of every unit stepped in every cycle, in plain numpy.

It schedules itself from the Program, by the state of ports, semaphores and weights in each cycle;
it shares no timing code with the event engine and never looks ahead. It is the referent, not the
engine for long runs.
"""

from systolic.machine.register.machine import run_register

__all__ = ["run_register"]
