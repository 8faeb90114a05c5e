"""What a chip file says of the array of processing elements."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from systolic.hw.datatypes import DATA_TYPES, MX_ELEMENTS
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
    min_vectors: Cycles = Field(
        default=0,
        description="a multiply holds the array for at least as many vectors, or as many as it "
        "uses columns if these are fewer",
    )
    moving_max: Count | None = Field(
        default=None,
        description="most vectors of a multiply, not less than rows (default: a bank of results)",
    )
    dispatch_cycles: Cycles = Field(default=0, description="cycles to dispatch an instruction")
    dispatch: DispatchKind = Field(default="overlapped", description=DISPATCH)
    clock: str = Field(default="", description="clock of this unit (default: the first clock)")
    cycles_per_vector: dict[str, Count] = Field(
        description="cycles each moving vector takes, by operand type; other types are refused"
    )
    passes: dict[str, Count] = Field(
        default={},
        description="times the vectors of a multiply are streamed, by operand type (default: once)",
    )
    pass_through: dict[str, Count] = Field(
        default={},
        description="cycles each moving vector takes where weights pass through unchanged, by "
        "type, in one pass (default: no type passes through)",
    )
    double_row: dict[str, Count] = Field(
        default={},
        description="cycles each moving vector takes where a PE multiplies two rows of the "
        "contraction, by type, in one pass (default: no type)",
    )
    mx: dict[str, Count] = Field(
        default={},
        description="cycles each moving vector takes where a PE multiplies four rows of numbers "
        "that share scales (OCP MX), by type of the elements, in one pass (default: no type)",
    )
    tile_sizes: tuple[Annotated[tuple[Count, Count], Field(strict=False)], ...] = Field(
        default=(),
        strict=False,
        description="sizes [rows, cols] of the tiles that multiply side by side, each with weights "
        "of its own (default: the array is not cut into tiles)",
    )
    warm_up_cycles: Cycles = Field(
        default=0,
        description="cycles after which a cold array is warm, and streams no longer slowly; an "
        "array that is busy in less than half of this number of cycles is cold again (0: it is "
        "never cold)",
    )
    warm_up_factor: Count = Field(
        default=2, description="times the cycles of a vector in a cold array"
    )

    def vector_cycles(self, dtype: str) -> int:
        """Return the cycles that a vector of a type takes in all passes together."""
        return self.cycles_per_vector[dtype] * self.passes.get(dtype, 1)

    def turns_by_passing(self, dtype: str) -> bool:
        """Return whether transposes of a type pass through: not slower than by a product."""
        passed = self.pass_through.get(dtype)
        return passed is not None and passed <= self.vector_cycles(dtype)

    def turn_cycles(self, dtype: str) -> int:
        """Return the cycles that a vector of the identity takes where a type is transposed."""
        passes = self.turns_by_passing(dtype)
        return self.pass_through[dtype] if passes else self.vector_cycles(dtype)

    @model_validator(mode="after")
    def _consistent(self) -> PEArray:
        self._check_types()
        self._check_mx()
        self._check_sizes()
        return self

    def _check_types(self) -> None:
        """Refuse types that are not known, and keys of types that the array does not take."""
        for name in self.cycles_per_vector:
            if name not in DATA_TYPES:
                raise ValueError(
                    f'cycles_per_vector: unknown data type "{name}" '
                    f"(known: {', '.join(DATA_TYPES)})"
                )
        if not self.cycles_per_vector:
            raise ValueError("cycles_per_vector: needs at least one data type")
        if self.moving_max is not None and self.moving_max < self.rows:
            raise ValueError(
                f"moving_max ({self.moving_max}) is less than rows ({self.rows}): an identity "
                "product of a whole block must fit"
            )
        for key, types in (
            ("passes", self.passes),
            ("pass_through", self.pass_through),
            ("double_row", self.double_row),
        ):
            for name in types:
                if name not in self.cycles_per_vector:
                    raise ValueError(
                        f'{key}: "{name}" is no type of cycles_per_vector '
                        f"({', '.join(self.cycles_per_vector)})"
                    )

    def _check_sizes(self) -> None:
        """Refuse cells that do not divide the array, and tiles that do not fit both."""
        for side, size, cell in (
            ("rows", self.rows, self.cell[0]),
            ("cols", self.cols, self.cell[1]),
        ):
            if size % cell:
                raise ValueError(f"{side} ({size}) must be a multiple of its cell size ({cell})")
        for tile in self.tile_sizes:
            for side, part, size, cell in (
                ("rows", tile[0], self.rows, self.cell[0]),
                ("cols", tile[1], self.cols, self.cell[1]),
            ):
                if size % part or part % cell:
                    raise ValueError(
                        f"tile_sizes: {side} of a tile must divide those of the array ({size}) and "
                        f"be a multiple of its cell size ({cell}), found {part}"
                    )

    def _check_mx(self) -> None:
        """Refuse types that are none of MX, and weights whose scales could not come with them."""
        for name in self.mx:
            if name not in MX_ELEMENTS:
                raise ValueError(
                    f'mx: "{name}" is no type of numbers that share scales '
                    f"({', '.join(MX_ELEMENTS)})"
                )
        if self.mx and self.weight_path == "top":
            raise ValueError(
                'mx: needs weight_path = "left", where the scales of a column come with it, '
                'found "top"'
            )
