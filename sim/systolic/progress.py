"""The function that hears how far a run is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Called now and then with the instructions done and the instructions in all."""
