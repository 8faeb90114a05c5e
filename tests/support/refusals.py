"""Which refusals of random work are right: the chip is too small for it."""

from __future__ import annotations

NO_ROOM = ("no room", "each in a partition of its own, but there are")
"""A tensor, an identity or a block that does not fit; a tile of more rows than partitions."""


def is_for_room(error: Exception) -> bool:
    """Return whether a run was refused because something does not fit on the chip."""
    return any(text in str(error) for text in NO_ROOM)
