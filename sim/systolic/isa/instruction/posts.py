"""How instructions of several queues wait for one another: posts on semaphores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Event = Literal["done", "row", "partition"]


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the instruction back until `semaphore` has been posted `value` times."""

    semaphore: int
    value: int


@dataclass(frozen=True, slots=True)
class Post:
    """Add 1 to `semaphore` when done, or (MatMul) per completed PSUM row or partition."""

    semaphore: int
    on: Event = "done"


@dataclass(frozen=True, slots=True)
class RemotePost(Post):
    """A post on a semaphore of another core or processor: `at` is its place, ``core1``."""

    at: str = ""
