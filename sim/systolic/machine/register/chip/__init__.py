"""Several cores of a chip: every register of every core, every cycle."""

from systolic.machine.register.chip.machine import run_register_chip

__all__ = ["run_register_chip"]
