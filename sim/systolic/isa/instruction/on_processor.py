"""Commands of a management processor. Its copies are copies of DMA queues (`on_dma`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from systolic.isa.instruction.posts import Post, Wait

CommandWord = Literal["wait", "post", "start", "ring", "notify", "stop"]
OWN_QUEUE = "processor"
"""The queue of a processor's commands; on a chip it bears the processor's name."""
COMMANDS: tuple[CommandWord, ...] = ("wait", "post", "start", "ring", "notify", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command; the next begins when it is done.

    wait: until its waits are satisfied. post: makes its posts. start: a core's program. ring: a
    doorbell, a post to another processor. notify: an interrupt to the host. stop: ends the program.

    Args:
        word: which of them.
        at: start: the core, ``core1``.
        program: start: the program of the core, by its name; "" is its only one.

    """

    word: CommandWord
    at: str = ""
    program: str = ""
    waits: tuple[Wait, ...] = ()
    posts: tuple[Post, ...] = ()

    @property
    def queue(self) -> str:
        """Return the name of the unit whose queue holds the command."""
        return OWN_QUEUE
