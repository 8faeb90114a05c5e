"""The machine: two engines that run the same Program and must leave the same Trace and bits."""

from systolic.machine.memory import Image, Memory
from systolic.machine.simulate import Outcome, simulate

__all__ = ["Image", "Memory", "Outcome", "simulate"]
