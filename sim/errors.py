"""The one exception family. Whatever a user can cause ends in one of these, as one clear line.

Not here: programming errors of our own (they stay AssertionError, TypeError, ... and are bugs).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SystolicError(Exception):
    """Base of every error a user can cause. The command line prints it and exits with status 2."""


class ConfigError(SystolicError):
    """A chip or run file that cannot be used: names file, table and key."""


class WorkloadError(SystolicError):
    """An operation, tensor or data file that makes no sense on its own."""


class CompileError(SystolicError):
    """Work that does not fit the chip: names what was needed and what there is."""


class ProgramError(SystolicError):
    """An illegal instruction or program: names the instruction."""


class SimulationError(SystolicError):
    """A run that cannot go on (deadlock) or that broke a law of its own (accounting)."""


class ResultError(SystolicError):
    """A run that ended with something other than it must: exit status 1, after all is written."""


def printable(text: str) -> str:
    """Return text whose control characters (and lone surrogates) are escapes such as \\x1b."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def perhaps(word: str, known: Iterable[str]) -> str:
    """Return ``'; perhaps "x" was meant'`` for the nearest of the known words, or ``''``."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f'; perhaps "{near[0]}" was meant' if near else ""
