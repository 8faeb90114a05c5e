"""What every specification has in common: its base class, and the kinds of numbers in it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1, le=1 << 40)]
Cycles = Annotated[int, Field(ge=0, le=1 << 40)]
Side = Annotated[int, Field(ge=1, le=4096)]
DispatchKind = Literal["overlapped", "serial"]
DISPATCH = "behind the instruction before it, from its start on, or when it could start otherwise"


class Spec(BaseModel):
    """Base: frozen, strict (no silent conversion), unknown keys refused.

    Pydantic builds a validator when a class is first used. A chip's validator holds the validators
    of its tables, so most classes need none of their own.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)
