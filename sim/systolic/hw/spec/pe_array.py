"""What a chip file says of the array of processing elements."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from systolic.hw.datatypes import DATA_TYPES
from systolic.hw.spec.base import DISPATCH, Count, Cycles, DispatchKind, Side, Spec


class PEArray(Spec):
    """The grid of processing elements (timing contract, section 1)."""

    rows: Side = Field(description="PE rows R; row r is fed by state-buffer partition r")
    cols: Side = Field(description="PE columns C; column c writes result-buffer partition c")
    weight_path: Literal["left", "top"] = Field(
        default="left", description="side on which weights enter"
    )
    weight_buffer: Literal["double", "single", "serial"] = Field(
        default="double", description="shadow register per PE, none, or no overlap at all"
    )
    fast_load: Side = Field(default=1, description="weight elements per lane and cycle (f)")
    hop: tuple[Count, Count] = Field(
        default=(1, 1), strict=False, description="cycles per register hop [down, right]"
    )
    cell: tuple[Count, Count] = Field(
        default=(1, 1), strict=False, description="PEs between registers [rows, cols]"
    )
    entry_cycles: Cycles = Field(default=0, description="registers before the first PE")
    fused_multiply_add: bool = Field(
        default=False, description="round once per multiply-add instead of twice"
    )
    min_interval_cycles: Cycles = Field(
        default=0, description="least distance between the starts of two multiplies"
    )
    dispatch_cycles: Cycles = Field(default=0, description="cycles to dispatch an instruction")
    dispatch: DispatchKind = Field(default="overlapped", description=DISPATCH)
    clock: str = Field(default="", description="clock of this unit (default: the first clock)")
    cycles_per_vector: dict[str, Count] = Field(
        description="cycles each moving vector takes, by operand type; other types are refused"
    )

    @model_validator(mode="after")
    def _consistent(self) -> PEArray:
        for name in self.cycles_per_vector:
            if name not in DATA_TYPES:
                raise ValueError(
                    f'cycles_per_vector: unknown data type "{name}" '
                    f"(known: {', '.join(DATA_TYPES)})"
                )
        if not self.cycles_per_vector:
            raise ValueError("cycles_per_vector: needs at least one data type")
        for side, size, cell in (
            ("rows", self.rows, self.cell[0]),
            ("cols", self.cols, self.cell[1]),
        ):
            if size % cell:
                raise ValueError(f"{side} ({size}) must be a multiple of its cell size ({cell})")
        return self
