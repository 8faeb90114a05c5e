"""The choices that a user has in the compilation of a workload, for files and for Python alike.

Each field is a key of the table [compile] of run files. Its annotation gives the values that it
takes and describes it, in pydantic's terms. The compiler reads the values; nothing here knows a
chip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

CountKey = Annotated[int, Field(ge=1, le=1 << 40)]
PairKey = Annotated[tuple[CountKey, CountKey], Field(strict=False)]


Stationary = Annotated[
    Literal["lhs", "rhs"] | None,
    Field(description="operand of a matmul held in the array (default: the cheaper)"),
]
GroupSize = Annotated[
    PairKey | None,
    Field(description="stationary tiles x banks of vectors that accumulate together"),
]
OuterLoop = Annotated[
    Literal["stationary", "moving"] | None,
    Field(description="operand the outer loop runs over (default: the cheaper)"),
]


@dataclass(frozen=True, slots=True)
class ProductOptions:
    """Choices for one product of a graph; None: what is chosen for all products holds."""

    stationary: Stationary = None
    group: GroupSize = None
    outer: OuterLoop = None


@dataclass(frozen=True, slots=True)
class Options:
    """Compile settings; None leaves a choice to the cost model, or to the default it describes.

    A transpose through the array is cut into blocks (equation 1) and its results are copied back as
    `drain` says (patent, para 85). A product holds one operand in the array; stationary tiles and
    banks of moving vectors accumulate in groups.
    """

    drain: Annotated[
        Literal["row", "partition", "block"],
        Field(description="when results leave the result buffer"),
    ] = "block"
    drain_engine: Annotated[
        str | None,
        Field(
            description="engine that copies results back, and does what else it can (default: the "
            "cheapest that can)"
        ),
    ] = None
    identity: Annotated[
        Literal["stored", "built"],
        Field(description="identity matrix: there at cycle 0, or built by one Select"),
    ] = "stored"
    via: Annotated[
        Literal["pe", "dram"] | None,
        Field(
            description="transpose through the array, or by DMA through DRAM (default: the cheaper)"
        ),
    ] = None
    block: Annotated[
        PairKey | None,
        Field(description="block [p, q] of equation 1 (default: partitions x partitions)"),
    ] = None
    stationary: Stationary = None
    group: GroupSize = None
    outer: OuterLoop = None
    structural_zeros: Annotated[
        bool,
        Field(
            description="whether a convolution of few channels, or of one filter for each channel, "
            "or a product by one matrix, may be done with zeros between weights, which make NaN "
            "of an infinity's neighbours"
        ),
    ] = True
    tile_columns: Annotated[
        CountKey | None, Field(description="columns of the tiles that are moved as one")
    ] = None
    effort: Annotated[
        int,
        Field(
            ge=0,
            le=1 << 10,
            description="how many plans of a stream are simulated to take the fastest, counted and "
            "never timed (0: estimates decide, and nothing is simulated)",
        ),
    ] = 12
    operations: Annotated[
        Mapping[str, ProductOptions],
        Field(description="choices for single products, by the operation's name"),
    ] = field(default_factory=dict)

    def of(self, operation: str) -> ProductOptions:
        """Return the choices that hold for a product: its own, and else those for all products."""
        own = self.operations.get(operation, ProductOptions())
        return ProductOptions(
            own.stationary or self.stationary, own.group or self.group, own.outer or self.outer
        )

    def asks_for_tiles(self, operation: str) -> bool:
        """Return whether a choice says how a product's operands are tiled, turned or held."""
        asked = self.via, self.block, self.tile_columns
        return any(asked) or self.of(operation) != ProductOptions()

    @property
    def asks_for_groups(self) -> bool:
        """Return whether the group of some product is given."""
        return self.group is not None or any(own.group for own in self.operations.values())

    def key_of_group(self, operation: str) -> str:
        """Return the key of a run file that gives a product its group."""
        own = self.operations.get(operation)
        return f"compile.operations.{operation}.group" if own and own.group else "compile.group"
