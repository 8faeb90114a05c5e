"""Where the instructions of a program stand in its text, for messages that name them by number."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NAMED = re.compile(r"\binstruction ([0-9]{1,9}) \(([A-Za-z]+)\)")


def with_lines(message: str, lines: Sequence[int]) -> str:
    """Return a message in which ``instruction 3 (Copy)`` is ``instruction 3 (Copy, line 12)``.

    lines: of each instruction, as a `Module` has them; none: the message stays as it is.
    """

    def named(found: re.Match[str]) -> str:
        index = int(found[1])
        if index >= len(lines):
            return found[0]
        return f"instruction {index} ({found[2]}, line {lines[index]})"

    return _NAMED.sub(named, message)
