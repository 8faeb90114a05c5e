"""Damaged HLO texts by seed: the reader answers each with its own error, or reads it.

`damaged(text, kind, rng)` makes one. Three of the five kinds take something away that a module
cannot do without, so a text of them must be refused.
"""

from __future__ import annotations

import random
import re

from systolic.errors import SystolicError
from systolic.workload.importers.graph import as_graph
from systolic.workload.importers.hlo.interpret import lower_module
from systolic.workload.importers.hlo.read import read_module

KINDS = ("cut", "definition", "shape", "bracket", "bytes")
REFUSED = ("cut", "definition", "shape")
"""Kinds of damage after which no text is whole."""

_LINE = re.compile(r"^  (?:ROOT )?%?([\w.\-]+) = .*\n", re.MULTILINE)
_DIMS = re.compile(r"^  (?:ROOT )?%?[\w.\-]+ = \w+\[(\d+)[,\]]", re.MULTILINE)


def damaged(text: str, kind: str, rng: random.Random) -> str | None:
    """Return a text with one damage; None if this text cannot be damaged so."""
    if kind == "cut":
        last = text.rstrip().rfind("}")
        return text[: rng.randrange(len("HloModule"), last)]
    if kind == "definition":
        return _without_definition(text, rng)
    if kind == "shape":
        return _other_shape(text, rng)
    if kind == "bracket":
        places = [n for n, letter in enumerate(text) if letter in "(){}[]"]
        at = rng.choice(places)
        return text[:at] + text[at + 1 :]
    letters = list(text)
    for _ in range(rng.randint(1, 8)):
        letters[rng.randrange(len(letters))] = chr(rng.choice([*range(1, 127), 0xE9, 0x4E2D]))
    return "".join(letters)


def _without_definition(text: str, rng: random.Random) -> str | None:
    """Take away the line of an instruction that another one takes."""
    lines = [m for m in _LINE.finditer(text) if _is_taken(text, m)]
    if not lines:
        return None
    line = rng.choice(lines)
    return text[: line.start()] + text[line.end() :]


def _is_taken(text: str, line: re.Match[str]) -> bool:
    end = text.index("\n}", line.start())
    rest = text[line.end() : end]
    return re.search(rf"[(, ]%?{re.escape(line[1])}[,)]", rest) is not None


def _other_shape(text: str, rng: random.Random) -> str | None:
    """Change the first dimension of an instruction whose operands say what it is."""
    free = ("parameter(", "constant(", "custom-call(", "iota(", "topk(", "sort(", "rng")
    found = [
        m
        for m in _DIMS.finditer(text)
        if not any(word in text[m.start() : text.index("\n", m.start())] for word in free)
    ]
    if not found:
        return None
    dims = rng.choice(found)
    return f"{text[: dims.start(1)]}{int(dims[1]) + rng.randint(1, 3)}{text[dims.end(1) :]}"


def outcome(text: str) -> str:
    """Return "read" or "refused"; any error but the package's own is raised."""
    try:
        lowered = lower_module(read_module(text))
        if lowered.not_done:
            return "refused" if not lowered.results else "read"
        as_graph(lowered.form, lowered.results, lowered.result_shapes)
    except SystolicError:
        return "refused"
    return "read"
