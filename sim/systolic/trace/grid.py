"""GridHistory: schedules and operands of the array, from which any cycle's grid is drawn.

The whole history of the grid is the one-dimensional injection schedule e[], swept along the
diagonals (timing contract, section 1). So nothing is stepped to know what PE (r, c) holds in cycle
t. Times here are in cycles of the array. Not an engine: an engine gives the schedules, and nothing
is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from systolic.array_distances import cycles_to
from systolic.spans import Interval

Plane: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GridShape:
    """Rows, columns and register distances of an array (chip data)."""

    rows: int
    cols: int
    entry: int
    hop: tuple[int, int]
    cell: tuple[int, int]
    fast_load: int
    weight_path: str
    weight_buffer: str
    fused: bool = False

    def delay(self) -> npt.NDArray[np.int64]:
        """Return [R, C] cycles from injection to the multiplication in PE (r, c)."""
        down = cycles_to(np.arange(self.rows), self.hop[0], self.cell[0])
        right = cycles_to(np.arange(self.cols), self.hop[1], self.cell[1])
        return self.entry + down[:, None] + right[None, :]

    def read_of(self, rows: int, cols: int, columns: int = 0) -> npt.NDArray[np.int64]:
        """Return [rows, cols]: which read of a load of that size brings the weight of each PE.

        columns: of a read, see `LoadPass`.
        """
        r, c = np.indices((rows, cols))
        if self.weight_path == "left":
            return c // (columns or self.fast_load)
        together = columns or cols
        return r // self.fast_load * -(-cols // together) + c // together


@dataclass(frozen=True, eq=False)
class LoadPass:
    """One LoadWeights: cycle of each read (int64 [L]) and the tile read, [K, N].

    columns: that a read brings, of all rows on the left path, of f rows on the top path (0: as
    many as the array takes, f or all N).
    """

    instruction: int
    reads: npt.NDArray[np.int64]
    weights: npt.NDArray[Any]
    columns: int = 0


@dataclass(frozen=True, eq=False)
class MatMulPass:
    """One MatMul: injection cycles e[m] (int64 [M]), moving vectors [M, K], columns N used.

    `exchange`: the first after a load, so weights are exchanged with its first injection.
    `silent`: the injections before e[0], of the passes whose vectors the PEs do not see.
    `is_pass_through`: weights pass through unchanged where the moving element is not 0.
    """

    instruction: int
    injections: npt.NDArray[np.int64]
    moving: npt.NDArray[Any]
    cols: int
    exchange: bool
    silent: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    is_pass_through: bool = False

    @property
    def first(self) -> int:
        """Return the cycle of the first injection, silent or not."""
        return int((self.silent if self.silent.size else self.injections)[0])


@dataclass(frozen=True, eq=False)
class GridState:
    """The grid in one cycle, each [R, C]: `moving` and `sum` are the PE's operand and its adder's
    output in that cycle; `weight` and `shadow` the registers as they stand at its end; `valid`
    whether a vector is there; `vector` its number (-1 where none), `matmul` its instruction (-1).

    Values are widened to the accumulator's type (float32 or int32, exact); in a run that uses
    both, to float64 (exact as well).
    """

    moving: npt.NDArray[Any]
    weight: npt.NDArray[Any]
    shadow: npt.NDArray[Any]
    sum: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_]
    vector: npt.NDArray[np.int64]
    matmul: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GridHistory:
    """All passes of a run, in queue order, on an array of the given shape.

    PE (r, c) does in cycle t what the corner of an array without delays would do in cycle
    t - delay(r, c), its *front*: weights, exchanges and vectors all travel alike. So every
    question is asked of one-dimensional schedules, once per PE.
    """

    shape: GridShape
    loads: tuple[LoadPass, ...] = ()
    matmuls: tuple[MatMulPass, ...] = ()

    def interval(self) -> Interval:
        """Return the cycles from the first read or injection to the last in which a PE acts."""
        schedules = [p.reads for p in self.loads] + [p.injections for p in self.matmuls]
        if not schedules:
            return Interval(0, 0)
        last = max(int(s[-1]) for s in schedules) + int(self.shape.delay()[-1, -1])
        firsts = [int(p.reads[0]) for p in self.loads] + [p.first for p in self.matmuls]
        return Interval(min(firsts), last + 1)

    def vectors(self, cycle: int) -> tuple[Plane, Plane]:
        """Return which of `matmuls` and which of its vectors is in each PE, -1 where none.

        Two planes [R, C], at a cost of O(R * C); no operand is touched.
        """
        slot = self._slots(cycle)
        _, matmul, vector = self._injections
        return _pick(matmul, slot, -1), _pick(vector, slot, -1)

    def at(self, cycle: int) -> GridState:
        """Return what every PE holds in that cycle (timing contract, section 2)."""
        slot = self._slots(cycle)
        front = cycle - self.shape.delay()
        shadow, weight = np.zeros_like(front, self._dtype), self._registers(front)
        if self.shape.weight_buffer == "double":
            shadow, weight = weight, self._registers(self._exchanged(front) - 1)
        matmul, vector = self.vectors(cycle)
        instructions = np.array([p.instruction for p in self.matmuls], np.int64)
        return GridState(
            moving=self._moving(slot),
            weight=weight,
            shadow=shadow,
            sum=self._sums(slot),
            valid=slot >= 0,
            vector=vector,
            matmul=_pick(instructions, matmul, -1),
        )

    def results(self, index: int) -> npt.NDArray[Any]:
        """Return the finished column sums [M, N] of `matmuls[index]`, before any accumulation."""
        one = self.matmuls[index]
        first = sum(len(p.injections) for p in self.matmuls[:index])
        slots = np.arange(first, first + len(one.injections))
        *_, final = self._accumulate(slots, _accumulator(one.moving.dtype))
        return np.asarray(final[:, : one.cols].astype(self._dtype))

    def injected(self, cycles: Interval) -> tuple[Plane, Plane, Plane]:
        """Return of the vectors injected in these cycles: cycle, index of the pass, number."""
        first, stop = np.searchsorted(self._injections[0], [cycles.first, cycles.stop])
        times, matmul, vector = self._injections
        return times[first:stop], matmul[first:stop], vector[first:stop]

    def row_sums(self, cycles: Interval) -> Iterator[npt.NDArray[np.float64]]:
        """Yield, row by row, the sums [V, C] that leave it, of the V vectors `injected` then."""
        first, stop = np.searchsorted(self._injections[0], [cycles.first, cycles.stop])
        slots = np.arange(first, stop)
        passes = [self.matmuls[i] for i in self._injections[1][slots]]
        whole = np.array([_accumulator(p.moving.dtype) == np.int32 for p in passes], np.bool_)
        parts = [(part, self._accumulate(slots[part], kind))
                 for part, kind in ((~whole, np.dtype(np.float32)), (whole, np.dtype(np.int32)))
                 if part.any()]  # fmt: skip
        for _ in range(self.shape.rows):
            sums = np.zeros((slots.size, self.shape.cols))
            for part, rows in parts:
                sums[part] = next(rows)
            yield sums

    @cached_property
    def _injections(self) -> tuple[Plane, Plane, Plane]:
        """Cycle, index of the pass, and number of every vector, in order of injection."""
        return _joined([p.injections for p in self.matmuls])

    @cached_property
    def _reads(self) -> Plane:
        return _joined([p.reads for p in self.loads])[0]

    @cached_property
    def _exchanges(self) -> Plane:
        return np.array([p.first for p in self.matmuls if p.exchange], np.int64)

    @cached_property
    def _dtype(self) -> np.dtype[Any]:
        operands = [p.weights for p in self.loads] + [p.moving for p in self.matmuls]
        kinds = {_accumulator(a.dtype) for a in operands}
        if len(kinds) > 1:
            return np.dtype(np.float64)
        return kinds.pop() if kinds else np.dtype(np.float32)

    def _slots(self, cycle: int) -> Plane:
        """Return [R, C] the place in `_injections` of the vector in each PE, -1 where none."""
        times, matmul, _ = self._injections
        front = cycle - self.shape.delay()
        if not times.size:
            return np.full_like(front, -1)
        slot = np.minimum(np.searchsorted(times, front), times.size - 1)
        cols = np.array([p.cols for p in self.matmuls])[matmul]
        there = (times[slot] == front) & (np.arange(self.shape.cols) < cols[slot])
        return np.where(there, slot, -1)

    def _exchanged(self, front: Plane) -> Plane:
        """Return when the exchange that each front saw last was injected, 0 if none."""
        times = self._exchanges
        return _pick(times, np.searchsorted(times, front, side="right") - 1, 0)

    def _registers(self, limit: Plane) -> npt.NDArray[Any]:
        """Return [R, C] the registers that loads write, after all reads up to cycle `limit`."""
        held = np.zeros(limit.shape, self._dtype)
        missing = np.ones(limit.shape, bool)
        for load in reversed(self.loads):
            rows, cols = load.weights.shape
            open_, into = missing[:rows, :cols], held[:rows, :cols]
            if load.reads[0] > limit.max() or not open_.any():
                continue
            written = open_ & (load.reads[self._read_of(load)] <= limit[:rows, :cols])
            into[written] = load.weights[written].astype(self._dtype)
            open_ &= ~written
        return held

    def _read_of(self, load: LoadPass) -> Plane:
        rows, cols = load.weights.shape
        return self.shape.read_of(rows, cols, load.columns)

    def _moving(self, slot: Plane) -> npt.NDArray[Any]:
        moving = np.zeros(slot.shape, self._dtype)
        _, matmul, vector = self._injections
        owner = _pick(matmul, slot, -1)
        for index in np.unique(owner[owner >= 0]):
            operand = self.matmuls[index].moving
            r, c = np.nonzero(owner == index)
            r, c = r[r < operand.shape[1]], c[r < operand.shape[1]]
            moving[r, c] = operand[vector[slot[r, c]], r].astype(self._dtype)
        return moving

    def _sums(self, slot: Plane) -> npt.NDArray[Any]:
        sums = np.zeros(slot.shape, self._dtype)
        flying = np.unique(slot[slot >= 0])
        for kind in (np.dtype(np.float32), np.dtype(np.int32)):
            matmuls = [self.matmuls[i] for i in self._injections[1][flying]]
            slots = flying[[_accumulator(p.moving.dtype) == kind for p in matmuls]]
            if slots.size:
                place = _places(slots, slot)
                for r, total in enumerate(self._accumulate(slots, kind)):
                    c = np.flatnonzero(place[r] >= 0)
                    sums[r, c] = total[place[r, c], c]
        return sums

    def _accumulate(self, slots: Plane, kind: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
        """Yield, row by row, the sums [V, C] that leave the row, for V vectors in all columns."""
        _, matmul, vector = self._injections
        operands = [self.matmuls[matmul[i]].moving[vector[i]] for i in slots]
        moving = np.zeros((slots.size, self.shape.rows), kind)
        for place, operand in enumerate(operands):
            moving[place, : operand.size] = operand.astype(kind)
        used = np.array([operand.size for operand in operands])
        through = np.array([self.matmuls[matmul[i]].is_pass_through for i in slots])[:, None]
        planes, plane = self._weights_met(slots, kind)
        total = np.zeros((slots.size, self.shape.cols), kind)
        for r in range(self.shape.rows):
            with np.errstate(all="ignore"):
                new = _multiply_add(moving[:, r, None], planes[plane, r], total, self.shape.fused)
            if through.any():
                passed = np.where(moving[:, r, None] != 0, planes[plane, r], total)
                new = np.where(through, passed, new)
            total = np.where((r < used)[:, None], new, total)
            yield total

    def _weights_met(self, slots: Plane, kind: np.dtype[Any]) -> tuple[npt.NDArray[Any], Plane]:
        """Return the distinct weight planes [G, R, C] that vectors meet, and each vector's [V]."""
        times = self._injections[0][slots]
        seen = self._exchanged(times) if self.shape.weight_buffer == "double" else times
        reads = np.searchsorted(self._reads, seen - 1, side="right")
        counts, plane = np.unique(reads, return_inverse=True)
        sides = (self.shape.rows, self.shape.cols)
        limits = [int(self._reads[n - 1]) if n else -1 for n in counts]
        with np.errstate(all="ignore"):
            planes = [self._registers(np.full(sides, n)).astype(kind) for n in limits]
        return np.stack(planes), plane


def _joined(schedules: Sequence[Plane]) -> tuple[Plane, Plane, Plane]:
    """Return all cycles of the schedules, which schedule each is of, and its place in it."""
    lengths = [len(s) for s in schedules]
    empty = np.empty(0, np.int64)
    places = [np.arange(n) for n in lengths]
    return (
        np.concatenate([empty, *schedules]),
        np.repeat(np.arange(len(schedules)), lengths),
        np.concatenate([empty, *places]),
    )


def _pick(values: Plane, index: Plane, otherwise: int) -> Plane:
    """Return values[index], `otherwise` where the index is negative."""
    if not values.size:
        return np.full_like(index, otherwise)
    return np.where(index < 0, otherwise, values[index])


def _places(slots: Plane, slot: Plane) -> Plane:
    """Return where in the sorted `slots` each of `slot` stands, -1 where it does not."""
    place = np.minimum(np.searchsorted(slots, slot), slots.size - 1)
    return np.where(slots[place] == slot, place, -1)


def _accumulator(operand: np.dtype[Any]) -> np.dtype[Any]:
    """Return int32 for integer operands, float32 for all others (bfloat16 and such included)."""
    return np.dtype(np.int32 if np.issubdtype(operand, np.integer) else np.float32)


def _multiply_add(
    moving: npt.NDArray[Any], weight: npt.NDArray[Any], total: npt.NDArray[Any], fused: bool
) -> npt.NDArray[Any]:
    """Return total + moving * weight, the product rounded first unless fused."""
    if not fused or total.dtype.kind == "i":
        return np.asarray(total + moving * weight)
    # The product of two float32 is exact in float64. Their sum there is rounded to odd, which
    # leaves enough bits for the second rounding, to float32, to be the only one that counts.
    product = moving.astype(np.float64) * weight
    wide = product + total
    back = wide - product
    error = (product - (wide - back)) + (total - back)
    even = (wide.view(np.int64) & 1) == 0
    step = np.where(error > 0, np.inf, -np.inf)
    odd = np.where(even & (error != 0) & np.isfinite(error), np.nextafter(wide, step), wide)
    return np.asarray(odd.astype(np.float32))
