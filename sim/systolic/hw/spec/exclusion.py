"""What a chip file says of engines that take turns at a buffer."""

from __future__ import annotations

from pydantic import Field, field_validator

from systolic.hw.spec.base import Spec
from systolic.hw.units import BufferName


class Exclusion(Spec):
    """Engines of which one at most reads or writes a buffer in a cycle, in whatever banks."""

    engines: tuple[str, ...] = Field(
        strict=False, description="the engines, of which one at a time has the buffer"
    )
    buffer: BufferName = Field(description="the buffer")

    @field_validator("engines")
    @classmethod
    def _several_engines(cls, engines: tuple[str, ...]) -> tuple[str, ...]:
        if len(engines) < 2 or len({*engines}) < len(engines):
            raise ValueError(f"needs two or more engines, each once, found {', '.join(engines)}")
        return engines
