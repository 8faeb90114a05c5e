"""The one exception family: every failure that a user can cause is raised as a member of it.

Not here: mistakes in this package (AssertionError, TypeError, ...), which are bugs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class SystolicError(Exception):
    """Base of every error a user can cause. The command line prints it and exits with status 2.

    setting: the thing that the message asks the user to give, such as "chip"; None if it asks for
    nothing. The command line adds the option that gives it (`--chip CHIP`), because a message
    itself names no option.
    """

    def __init__(self, message: str = "", setting: str | None = None) -> None:
        super().__init__(message)
        self.setting = setting


class ConfigError(SystolicError):
    """A chip or run file that cannot be used: names file, table and key."""


class UnknownKeyError(ConfigError):
    """A key that there is not: the same for every value it could have."""


class WorkloadError(SystolicError):
    """An operation, tensor or data file that makes no sense on its own."""


class CompileError(SystolicError):
    """Work that does not fit the chip: names what was needed and what there is."""


class RoomError(CompileError):
    """Tensors or tiles for which a memory of the chip is too small; a part of them may fit."""


class ProgramError(SystolicError):
    """An illegal instruction or program: names the instruction."""


class SimulationError(SystolicError):
    """A run that cannot go on (deadlock), or that broke a law of the simulator (accounting)."""


class LimitReachedError(SimulationError):
    """A run that was stopped because it takes as many ticks as it was given."""


class ResultError(SystolicError):
    """A run with a wrong result: exit status 1, after all files are written."""


class InterruptedRunError(SystolicError):
    """The user pressed Ctrl-C; the message says which results are kept. Exit status 130."""


SHOWN_LETTERS, LISTED = 60, 20
WORD_LETTERS, _LONG_WORD = 120, re.compile(r"\S{300,}")
LONGEST_COMPARED = 80
LEAST_ALIKE, LEAST_BEGINNING = 0.6, 3


def printable(text: str) -> str:
    """Return text whose control characters (and lone surrogates) are escapes such as \\x1b."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def readable(text: str) -> str:
    """Return a message fit to be printed: printable, and no word longer than one can read."""
    return _LONG_WORD.sub(lambda word: shortened(word[0], WORD_LETTERS), printable(text))


def shortened(text: str, letters: int = SHOWN_LETTERS) -> str:
    """Return text as a message shows it: without its middle if it is longer than `letters`."""
    if len(text) <= letters:
        return text
    kept = max(letters - len("..."), 2)
    return f"{text[: kept - kept // 3]}...{text[-(kept // 3) :]}"


def listed(names: Iterable[str], most: int = LISTED) -> str:
    """Return names as a message lists them: ``a, b, c and 5 others``; "none" if there are none."""
    every = list(names)
    text = ", ".join(shortened(name) for name in every[:most]) or "none"
    rest = len(every) - most
    return f"{text} and {rest} other{'s' * (rest > 1)}" if rest > 0 else text


def perhaps(word: str, known: Iterable[str]) -> str:
    """Return ``'; perhaps "x" was meant'`` for the nearest of the known words, or ``''``."""
    near = nearest(word, known)
    return f'; perhaps "{near[0]}" was meant' if near else ""


def nearest(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known words that are near a word, the nearest first, at most that many.

    Near means: alike but for one change in every three letters of the known word, or one the
    beginning of the other ("chp" is near "chip", "precharge" near "precharge_cycles", "maximum"
    near "max", "relu" not near "relayout"). Letters' case does not count.
    """
    if len(word) > LONGEST_COMPARED:
        return []
    near = [
        (-_alike(word, name), place, name)
        for place, name in enumerate(known)
        if len(name) <= LONGEST_COMPARED and _is_near(word.casefold(), name.casefold())
    ]
    return [name for _, _, name in sorted(near)[:most]]


def _alike(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other.casefold(), one.casefold()).ratio()


def _is_near(word: str, name: str) -> bool:
    shorter, longer = sorted((word, name), key=len)
    if len(shorter) >= LEAST_BEGINNING and longer.startswith(shorter):
        return True
    few = max(1, len(name) // 3)
    return _alike(word, name) >= LEAST_ALIKE and _changes(word, name) <= few


def _changes(one: str, other: str) -> int:
    """Return how many letters to add, remove, replace or swap with the next make one the other."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]
