"""What a chip file says of the interconnect: pools of bandwidth between endpoints, and ways."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from systolic.hw.spec.base import Count, Cycles, Spec
from systolic.hw.spec.places import ChipPlace


class ChipWay(NamedTuple):
    """The way of a copy or a post: the pools that it holds, in order, and its hops."""

    pools: tuple[str, ...]
    hops: int


NO_WAY = ChipWay((), 0)
"""The way within one core, or one controller."""


class Interconnect(Spec):
    """Wires and multiplexers between cores, controllers and processors: pools of bandwidth.

    Nothing is stored on the way, and there are no packets. Cycles are cycles of its clock.
    """

    kind: Literal["crossbar", "ring", "mesh"] = Field(
        description="crossbar: a pool out of and one into each endpoint; ring and mesh: one for "
        "each directed link"
    )
    shape: tuple[Annotated[int, Field(ge=1, le=64)], ...] | None = Field(
        default=None,
        strict=False,
        description="mesh: its columns and its rows; cores stand on it row by row",
    )
    bytes_per_cycle: Count = Field(description="bytes of a pool in a cycle")
    hop_cycles: Cycles = Field(default=0, description="what a hop adds to a copy's latency")
    post_cycles: Cycles = Field(default=0, description="what a hop adds to a post's way")
    clock: str = Field(default="", description="clock of the interconnect (default: the first)")

    @model_validator(mode="after")
    def _has_shape(self) -> Interconnect:
        if self.kind == "mesh" and (self.shape is None or len(self.shape) != 2):
            raise ValueError("shape: a mesh needs its columns and its rows, such as [2, 2]")
        if self.kind != "mesh" and self.shape is not None:
            raise ValueError(f"shape: only a mesh has one, and kind is {self.kind}")
        return self

    def nodes_between(self, first: int, last: int, nodes: int) -> list[int]:
        """Return the nodes from one to another, both included, on the shortest way.

        On a ring of two equal ways the one to higher numbers; on a mesh along its rows first.
        """
        if self.kind == "ring":
            ahead = (last - first) % nodes
            step, count = (1, ahead) if 2 * ahead <= nodes else (-1, nodes - ahead)
            return [(first + step * k) % nodes for k in range(count + 1)]
        assert self.shape is not None
        columns = self.shape[0]
        (x, y), (to_x, to_y) = (divmod(node, columns)[::-1] for node in (first, last))
        found = [y * columns + x]
        while x != to_x:
            x += 1 if to_x > x else -1
            found.append(y * columns + x)
        while y != to_y:
            y += 1 if to_y > y else -1
            found.append(y * columns + x)
        return found

    def way(
        self, source: tuple[ChipPlace, int], target: tuple[ChipPlace, int], nodes: int
    ) -> ChipWay:
        """Return the way from one endpoint to another.

        Args:
            source: the endpoint, and the node of a core that it is, or hangs at.
            target: the same of where the way leads.
            nodes: how many cores there are.

        """
        (start, first), (end, last) = source, target
        if start == end:
            return NO_WAY
        if self.kind == "crossbar":
            return ChipWay((f"{start}.out", f"{end}.in"), 1)
        nodes_on = self.nodes_between(first, last, nodes)
        links = [f"core{a}->core{b}" for a, b in pairwise(nodes_on)]
        own = [f"{start}.out"] if start.kind != "core" else []
        its = [f"{end}.in"] if end.kind != "core" else []
        return ChipWay((*own, *links, *its), len(links))
