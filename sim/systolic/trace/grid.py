"""GridHistory: schedules and operands of the array, from which any cycle's grid is drawn.

The whole history of the grid is the one-dimensional injection schedule e[], swept along the
diagonals (timing contract, section 1). So nothing is stepped to know what PE (r, c) holds in cycle
t. Times here are in cycles of the array. Not an engine: an engine gives the schedules, and nothing
is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from systolic.spans import Interval
from systolic.trace.passes import GridPlace, GridShape, LoadPass, MatMulPass

Plane: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GridState:
    """The grid in one cycle, each [R, C]: `moving` and `sum` are the PE's operand and its adder's
    output in that cycle; `weight` and `shadow` the registers as they stand at its end; `valid`
    whether a vector is there; `vector` its number (-1 where none), `matmul` its instruction (-1).

    Of several rows in a PE `moving`, `weight` and `shadow` are the first row's; `sum` is of all.
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

    def put(self, place: GridPlace, tile: GridState) -> None:
        """Show the grid of a tile in these planes: its registers, and its vectors where it has any.

        A PE that has no vector of this tile may have one of another tile.
        """
        for mine, its in ((self.weight, tile.weight), (self.shadow, tile.shadow)):
            mine[place.within] = its
        for mine, its in (
            (self.moving, tile.moving),
            (self.sum, tile.sum),
            (self.valid, tile.valid),
            (self.vector, tile.vector),
            (self.matmul, tile.matmul),
        ):
            mine[place.within][tile.valid] = its[tile.valid]


@dataclass(frozen=True, eq=False)
class _Part:
    """The history of a tile, and the places of its passes among all."""

    place: GridPlace
    history: GridHistory
    chosen: Plane


@dataclass(frozen=True, eq=False)
class _Vectors:
    """Vectors in order of injection, each [V]: cycle, index of the pass, and number in it."""

    times: Plane
    matmul: Plane
    vector: Plane


@dataclass(frozen=True, eq=False)
class GridHistory:
    """All passes of a run, in queue order, on an array of the given shape.

    PE (r, c) does in cycle t what the corner of an array without delays would do in cycle
    t - delay(r, c), its *front*: weights, exchanges and vectors all travel alike. So every
    question is asked of one-dimensional schedules, once per PE. Loads follow each other in time,
    and multiplies do: so what a cycle costs is the passes under way around it, not all of a run.
    """

    shape: GridShape
    loads: tuple[LoadPass, ...] = ()
    matmuls: tuple[MatMulPass, ...] = ()

    @cached_property
    def has_tiles(self) -> bool:
        """Return whether some pass has a tile of the array."""
        tiled = [each.place for each in self.loads] + [each.place for each in self.matmuls]
        return any(place is not None for place in tiled)

    @cached_property
    def _parts(self) -> list[_Part]:
        """Return the history of each tile."""
        whole = GridPlace(0, 0, self.shape.rows, self.shape.cols)
        places = {each.place or whole for each in self.loads}
        places |= {each.place or whole for each in self.matmuls}
        return [self._part(place, whole) for place in places]

    def _part(self, place: GridPlace, whole: GridPlace) -> _Part:
        chosen = [n for n, each in enumerate(self.matmuls) if (each.place or whole) == place]
        loads = [each for each in self.loads if (each.place or whole) == place]
        history = GridHistory(
            self.shape.part(place),
            tuple(replace(each, place=None) for each in loads),
            tuple(replace(self.matmuls[n], place=None) for n in chosen),
        )
        return _Part(place, history, np.array(chosen, np.int64))

    def _state_of_tiles(self, cycle: int) -> GridState:
        """Return what every PE holds: registers of the tile loaded last, vectors of any tile."""
        shape = self.shape.rows, self.shape.cols
        numbers, nowhere = np.zeros(shape, self._dtype), np.full(shape, -1, np.int64)
        found = GridState(
            moving=numbers,
            weight=numbers.copy(),
            shadow=numbers.copy(),
            sum=numbers.copy(),
            valid=np.zeros(shape, np.bool_),
            vector=nowhere,
            matmul=nowhere.copy(),
        )
        for part in sorted(self._parts, key=lambda each: each.history.loaded(cycle)):
            found.put(part.place, part.history.at(cycle))
        return found

    def loaded(self, cycle: int) -> int:
        """Return the cycle of the first read of the last load begun up to a cycle, or -1."""
        return max((int(p.reads[0]) for p in self.loads if p.reads[0] <= cycle), default=-1)

    def interval(self) -> Interval:
        """Return the cycles from the first read or injection to the last in which a PE acts."""
        if self.has_tiles:
            spans = [part.history.interval() for part in self._parts]
            return Interval(min(each.first for each in spans), max(each.stop for each in spans))
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
        if self.has_tiles:
            return self._vectors_of_tiles(cycle)
        flying, slot = self._flying(cycle)
        return _pick(flying.matmul, slot, -1), _pick(flying.vector, slot, -1)

    def _vectors_of_tiles(self, cycle: int) -> tuple[Plane, Plane]:
        matmuls = np.full((self.shape.rows, self.shape.cols), -1, np.int64)
        vectors = matmuls.copy()
        for part in self._parts:
            mine, number = part.history.vectors(cycle)
            there = mine >= 0
            matmuls[part.place.within][there] = part.chosen[mine[there]]
            vectors[part.place.within][there] = number[there]
        return matmuls, vectors

    def passes(self, cycles: Interval) -> range:
        """Return the places in `matmuls` of the passes under way in these cycles.

        A pass is under way from its first injection to its last.
        """
        firsts, lasts = self._pass_spans
        start = int(np.searchsorted(lasts, cycles.first))
        return range(start, max(start, int(np.searchsorted(firsts, cycles.stop))))

    def loads_in(self, cycles: Interval) -> Sequence[LoadPass]:
        """Return the loads under way in these cycles, from their first read to their last."""
        firsts, lasts = self._load_spans
        start = int(np.searchsorted(lasts, cycles.first))
        return self.loads[start : int(np.searchsorted(firsts, cycles.stop))]

    def at(self, cycle: int) -> GridState:
        """Return what every PE holds in that cycle (timing contract, section 2)."""
        if self.has_tiles:
            return self._state_of_tiles(cycle)
        flying, slot = self._flying(cycle)
        front = cycle - self.shape.delay()
        shadow, weight = np.zeros_like(front, self._dtype), self._registers(front)
        if self.shape.weight_buffer == "double":
            shadow, weight = weight, self._registers(self._exchanged(front) - 1)
        instructions = np.array([self.matmuls[i].instruction for i in flying.matmul], np.int64)
        return GridState(
            moving=self._moving(flying, slot),
            weight=weight,
            shadow=shadow,
            sum=self._sums(flying, slot),
            valid=slot >= 0,
            vector=_pick(flying.vector, slot, -1),
            matmul=_pick(instructions, slot, -1),
        )

    def results(self, index: int) -> npt.NDArray[Any]:
        """Return the finished column sums [M, N] of `matmuls[index]`, before any accumulation."""
        for part in self._parts if self.has_tiles else ():
            if index in part.chosen:
                return part.history.results(int(np.searchsorted(part.chosen, index)))
        one = self.matmuls[index]
        vectors = self._vectors_of(range(index, index + 1))
        *_, final = self._accumulate(vectors, _accumulator(one.moving.dtype))
        return np.asarray(final[:, : one.cols].astype(self._dtype))

    def injected(self, cycles: Interval) -> tuple[Plane, Plane, Plane]:
        """Return of the vectors injected in these cycles: cycle, index of the pass, number."""
        found = self._injected(cycles)
        return found.times, found.matmul, found.vector

    def row_sums(self, cycles: Interval) -> Iterator[npt.NDArray[np.float64]]:
        """Yield, row by row, the sums [V, C] that leave it, of the V vectors `injected` then."""
        found = self._injected(cycles)
        whole = self._are_whole(found)
        parts = [
            (part, self._accumulate(_chosen(found, part), kind))
            for part, kind in ((~whole, np.dtype(np.float32)), (whole, np.dtype(np.int32)))
            if part.any()
        ]
        for _ in range(self.shape.rows):
            sums = np.zeros((found.times.size, self.shape.cols))
            for part, rows in parts:
                sums[part] = next(rows)
            yield sums

    def _vectors_of(self, passes: range) -> _Vectors:
        """Return all vectors of some passes."""
        schedules = [self.matmuls[i].injections for i in passes]
        lengths = np.array([len(s) for s in schedules], np.int64)
        begins = np.cumsum(lengths) - lengths
        count = int(lengths.sum())
        return _Vectors(
            np.concatenate([np.empty(0, np.int64), *schedules]),
            np.repeat(np.arange(passes.start, passes.stop), lengths),
            np.arange(count) - np.repeat(begins, lengths),
        )

    def _injected(self, cycles: Interval) -> _Vectors:
        """Return the vectors injected in these cycles."""
        found = self._vectors_of(self.passes(cycles))
        first, stop = np.searchsorted(found.times, [cycles.first, cycles.stop])
        return _chosen(found, slice(first, stop))

    def _are_whole(self, vectors: _Vectors) -> npt.NDArray[np.bool_]:
        """Return which vectors are summed as integers."""
        kinds = [_accumulator(self.matmuls[i].moving.dtype) for i in vectors.matmul]
        return np.array([kind == np.int32 for kind in kinds], np.bool_)

    @cached_property
    def _pass_spans(self) -> tuple[Plane, Plane]:
        return _spans([p.injections for p in self.matmuls])

    @cached_property
    def _load_spans(self) -> tuple[Plane, Plane]:
        return _spans([p.reads for p in self.loads])

    @cached_property
    def _reads(self) -> Plane:
        return np.concatenate([np.empty(0, np.int64), *(p.reads for p in self.loads)])

    @cached_property
    def _exchanges(self) -> Plane:
        return np.array([p.first for p in self.matmuls if p.exchange], np.int64)

    @cached_property
    def _dtype(self) -> np.dtype[Any]:
        types = {p.weights.dtype for p in self.loads} | {p.moving.dtype for p in self.matmuls}
        kinds = {_accumulator(dtype) for dtype in types}
        if len(kinds) > 1:
            return np.dtype(np.float64)
        return kinds.pop() if kinds else np.dtype(np.float32)

    def _flying(self, cycle: int) -> tuple[_Vectors, Plane]:
        """Return the vectors in the array, and [R, C] which of them each PE has, -1 for none."""
        front = cycle - self.shape.delay()
        found = self._injected(Interval(int(front.min()), int(front.max()) + 1))
        if not found.times.size:
            return found, np.full_like(front, -1)
        slot = np.minimum(np.searchsorted(found.times, front), found.times.size - 1)
        cols = np.array([self.matmuls[i].cols for i in found.matmul])
        there = (found.times[slot] == front) & (np.arange(self.shape.cols) < cols[slot])
        return found, np.where(there, slot, -1)

    def _exchanged(self, front: Plane) -> Plane:
        """Return when the exchange that each front saw last was injected, 0 if none."""
        times = self._exchanges
        return _pick(times, np.searchsorted(times, front, side="right") - 1, 0)

    def _registers(self, limit: Plane, *, row: int = 0) -> npt.NDArray[Any]:
        """Return [R, C] the registers that loads write, after all reads up to cycle `limit`.

        row: the number of the row of a PE; others than the first are written by loads of several
        rows only.
        """
        held = np.zeros(limit.shape, self._dtype)
        missing = np.ones(limit.shape, bool)
        begun = int(np.searchsorted(self._load_spans[0], limit.max(), side="right"))
        for load in reversed(self.loads[:begun]):
            if not missing.any():
                break
            if row > len(load.further):
                continue
            weights = load.further[row - 1] if row else load.weights
            rows, cols = weights.shape
            open_, into = missing[:rows, :cols], held[:rows, :cols]
            if not open_.any():
                continue
            written = open_ & (load.reads[self._read_of(load)] <= limit[:rows, :cols])
            into[written] = weights[written].astype(self._dtype)
            open_ &= ~written
        return held

    def _read_of(self, load: LoadPass) -> Plane:
        rows, cols = load.weights.shape
        return self.shape.read_of(rows, cols, load.columns)

    def _moving(self, flying: _Vectors, slot: Plane) -> npt.NDArray[Any]:
        moving = np.zeros(slot.shape, self._dtype)
        owner = _pick(flying.matmul, slot, -1)
        for index in np.unique(owner[owner >= 0]):
            operand = self.matmuls[index].moving
            r, c = np.nonzero(owner == index)
            r, c = r[r < operand.shape[1]], c[r < operand.shape[1]]
            moving[r, c] = operand[flying.vector[slot[r, c]], r].astype(self._dtype)
        return moving

    def _sums(self, flying: _Vectors, slot: Plane) -> npt.NDArray[Any]:
        sums = np.zeros(slot.shape, self._dtype)
        is_there, whole = np.isin(np.arange(flying.times.size), slot), self._are_whole(flying)
        for kind, part in ((np.dtype(np.float32), ~whole), (np.dtype(np.int32), whole)):
            slots = np.flatnonzero(is_there & part)
            if slots.size:
                place = _places(slots, slot)
                for r, total in enumerate(self._accumulate(_chosen(flying, slots), kind)):
                    c = np.flatnonzero(place[r] >= 0)
                    sums[r, c] = total[place[r, c], c]
        return sums

    def _accumulate(self, vectors: _Vectors, kind: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
        """Yield, row by row, the sums [V, C] that leave the row, for V vectors in all columns."""
        count, owners = vectors.times.size, [self.matmuls[i] for i in vectors.matmul]
        operands = [p.moving[v] for p, v in zip(owners, vectors.vector, strict=True)]
        moving = np.zeros((count, self.shape.rows), kind)
        for place, operand in enumerate(operands):
            moving[place, : operand.size] = operand.astype(kind)
        used = np.array([operand.size for operand in operands])
        through = np.array([p.is_pass_through for p in owners])[:, None]
        planes, plane = self._weights_met(vectors.times, kind)
        several = [
            self._further(row, vectors, kind)
            for row in range(1, 1 + max((len(p.further) for p in owners), default=0))
        ]
        total = np.zeros((count, self.shape.cols), kind)
        for r in range(self.shape.rows):
            with np.errstate(all="ignore"):
                new = _multiply_add(moving[:, r, None], planes[plane, r], total, self.shape.fused)
                for has_row, also, others in several:
                    more = _multiply_add(also[:, r, None], others[plane, r], new, self.shape.fused)
                    new = np.where(has_row, more, new)
            if through.any():
                passed = np.where(moving[:, r, None] != 0, planes[plane, r], total)
                new = np.where(through, passed, new)
            total = np.where((r < used)[:, None], new, total)
            yield total

    def _further(
        self, row: int, vectors: _Vectors, kind: np.dtype[Any]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any], npt.NDArray[Any]]:
        """Return of a row of the PEs beyond the first: which vectors have it, [V, 1], and operands.

        These are moving values [V, R], and the weight planes that `_weights_met` numbers.
        """
        owners = [self.matmuls[i] for i in vectors.matmul]
        moving = np.zeros((len(owners), self.shape.rows), kind)
        for place, (one, v) in enumerate(zip(owners, vectors.vector, strict=True)):
            if row <= len(one.further):
                operand = one.further[row - 1][v]
                moving[place, : operand.size] = operand.astype(kind)
        has_row = np.array([row <= len(one.further) for one in owners], np.bool_)[:, None]
        weights, _ = self._weights_met(vectors.times, kind, row=row)
        return has_row, moving, weights

    def _weights_met(
        self, times: Plane, kind: np.dtype[Any], *, row: int = 0
    ) -> tuple[npt.NDArray[Any], Plane]:
        """Return the distinct weight planes [G, R, C] that vectors meet, and each vector's [V].

        times: [V] the cycles of the vectors' injections. row: the number of the row of a PE.
        """
        seen = self._exchanged(times) if self.shape.weight_buffer == "double" else times
        reads = np.searchsorted(self._reads, seen - 1, side="right")
        counts, plane = np.unique(reads, return_inverse=True)
        sides = (self.shape.rows, self.shape.cols)
        limits = [int(self._reads[n - 1]) if n else -1 for n in counts]
        with np.errstate(all="ignore"):
            planes = [self._registers(np.full(sides, n), row=row).astype(kind) for n in limits]
        return np.stack(planes), plane


def _spans(schedules: Sequence[Plane]) -> tuple[Plane, Plane]:
    """Return the first and the last cycle of each schedule."""
    firsts, lasts = [s[0] for s in schedules], [s[-1] for s in schedules]
    return np.array(firsts, np.int64), np.array(lasts, np.int64)


def _chosen(vectors: _Vectors, which: Plane | slice | npt.NDArray[np.bool_]) -> _Vectors:
    """Return some of the vectors, in their order."""
    return _Vectors(vectors.times[which], vectors.matmul[which], vectors.vector[which])


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
