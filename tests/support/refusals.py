"""Which refusals of random work are right: the chip is too small for it."""

from __future__ import annotations

NO_ROOM = (
    "no room",
    "each in a partition of its own, but there are",
    "take at most 1 at once, the rows of a block",
)
"""What does not fit: a tensor, an identity, a block; more rows than partitions; two elements to
reduce at once.
"""


def is_for_room(error: Exception) -> bool:
    """Return whether a run was refused because something does not fit on the chip."""
    return any(text in str(error) for text in NO_ROOM)
