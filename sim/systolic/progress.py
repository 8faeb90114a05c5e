"""What hears how far a run is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

Progress: TypeAlias = Callable[[int, int], None]
"""Called now and then with the instructions done and the instructions in all."""


@runtime_checkable
class HearsStages(Protocol):
    """A `Progress` that is also told what a run is at: compiling, checking, ..."""

    def at(self, stage: str) -> None:
        """Hear that a stage begins."""


def at(progress: Progress | None, stage: str) -> None:
    """Tell a listener that a stage begins, if it hears stages."""
    if isinstance(progress, HearsStages):
        progress.at(stage)
