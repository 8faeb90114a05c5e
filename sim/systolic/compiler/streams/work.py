"""What a stream does, as values: frames of elements, and what is computed of them on the way.

A stream makes one tensor. Its elements are seen as modes (`systolic.compiler.places`) whose sides
are the result and the operands: dimensions that lie alike on all sides are one mode. A frame is a
box of them; the frames of a stream are disjoint. What is computed is a kernel: steps of engines,
each of one instruction for all elements of a tile. Not here: which operation becomes which frames
(`systolic.compiler.streams.table`), and how a frame is cut (`tiling`).
"""

from __future__ import annotations

from dataclasses import dataclass

from systolic.compiler.ir.lane_step import LaneStep
from systolic.compiler.places.modes import Modes
from systolic.isa import Pool
from systolic.layout import Shape

MOST_GAP = 8
"""The most elements that are brought for one: more take longer than another descriptor."""


@dataclass(frozen=True, slots=True)
class StreamSide:
    """A tensor whose elements a stream reads or writes: its name, its type in memory.

    holes: between its elements there may be bytes that nothing writes, so these are not brought.
    gap: all elements of a frame lie at multiples of `gap`, and nothing but padding between them.
    """

    tensor: str
    dtype: str
    holes: bool = False
    gap: int = 1

    @property
    def brought(self) -> int:
        """Return how many elements are brought for each: padding too, if it costs little."""
        return self.gap if self.gap <= MOST_GAP and not self.holes else 1


@dataclass(frozen=True, slots=True)
class KernelStep:
    """One instruction of an engine for all elements of a tile.

    operands: numbers of operands, in the order of the step's fields: the kernel's inputs
    come first, then the results of its steps. dtype: of the result. layer: the operation.
    """

    lane: LaneStep
    operands: tuple[int, ...]
    dtype: str
    layer: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """What is made of the inputs of a part: the last step's result, or the input as it is.

    fill: the value of all elements, where there are no inputs.
    """

    inputs: tuple[int, ...]
    steps: tuple[KernelStep, ...] = ()
    fill: float | None = None

    @property
    def moves(self) -> bool:
        """Return whether elements stay as they are."""
        return not self.steps and self.fill is None


@dataclass(frozen=True, slots=True)
class FramePart:
    """A part of a frame: its kernel, its modes inside the frame's, and where it begins.

    at: places of its first element, on each side, counted from the frame's first element.
    """

    kernel: Kernel
    inner: Modes = ()
    at: tuple[int, ...] = ()

    def kept(self) -> list[bool]:
        """Return which operands, then which steps' results, repeat along the inner modes.

        Those are what a reduction of the inner modes makes, and what is made of such alone.
        """
        found = [not any(mode.steps[side] for mode in self.inner) for side in self.kernel.inputs]
        for step in self.kernel.steps:
            found.append(step.lane.cls is Pool or all(found[n] for n in step.operands))
        return found


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """A box of a result: modes that are cut into tiles, and inner ones that a tile has whole.

    sides: of the steps of the modes; the result's is the first. at: the first element on each.
    inner: the modes of the result inside `modes`, over which its parts lie side by side.
    keeps_bits: every element must arrive as it is, a NaN or an infinity too. So it is inside of a
    composite operation: the reference knows no turns of it.
    """

    sides: tuple[StreamSide, ...]
    at: tuple[int, ...]
    modes: Modes
    parts: tuple[FramePart, ...]
    inner: Modes = ()
    keeps_bits: bool = False

    @property
    def is_straight(self) -> bool:
        """Return whether its elements only move, all alike, so that DMA can do it within DRAM."""
        return len(self.parts) == 1 and self.parts[0].kernel.moves

    @property
    def has_several_steps(self) -> bool:
        """Return whether engines do one step of a tile after another."""
        return any(len(part.kernel.steps) > 1 for part in self.parts)

    def key(self) -> tuple[object, ...]:
        """Return what its plan depends on: neither names nor the place of the first element."""
        parts = [
            (
                part.inner,
                part.at,
                part.kernel.inputs,
                part.kernel.fill,
                [(step.lane, step.operands, step.dtype) for step in part.kernel.steps],
            )
            for part in self.parts
        ]
        sides = [(side.dtype, side.holes, side.gap) for side in self.sides]
        return sides, self.modes, self.inner, parts, self.keeps_bits


@dataclass(frozen=True, slots=True)
class StreamWork:
    """What makes one tensor: frames, in one or several ways; the best is taken.

    layer: the operation that brings and stores. shape: of the tensor, as it lies in DRAM.
    """

    layer: str
    output: str
    shape: Shape
    ways: tuple[tuple[StreamFrame, ...], ...]
