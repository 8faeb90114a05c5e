"""Snapshots of the whole machine in one cycle, and watchpoints, from a run's records alone.

Nothing is stepped. The grid follows from schedules and operands; the buffers follow from their
contents at the start and the words written since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.errors import SystolicError, listed
from systolic.isa import Access, Buffer, DmaMove, Instruction
from systolic.isa.effects import reads, writes
from systolic.isa.legality.chip_program import copy_ends
from systolic.machine import Image, Memory
from systolic.machine.array_shape import grid_shape
from systolic.run.result import Result
from systolic.trace.grid import GridHistory, GridState
from systolic.trace.words import BUFFERS, KINDS, NO_CORE, VALUE_TYPES, WordTable, decimal

WRITES = ("write", "psum_write")
"""The kinds of words that a run must record for a snapshot."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The machine as it stands at the end of a cycle of the array.

    grid: [R, C] planes (see `systolic.trace.grid.GridState`). state_buffer, result_buffer: raw
    bytes [partitions, bytes]. written: for each buffer, which bytes hold initial contents or were
    written since.
    """

    cycle: int
    grid: GridState
    state_buffer: npt.NDArray[np.uint8]
    result_buffer: npt.NDArray[np.uint8]
    written: dict[Buffer, npt.NDArray[np.bool_]]

    def occupancy(self, buffer: Buffer) -> list[int]:
        """Return how many bytes of each partition hold something."""
        return [int(n) for n in self.written[buffer].sum(axis=1)]


def core_of(result: Result, name: str, option: str) -> str:
    """Return the core that is looked at: the one named, else the first; "" if there is one core."""
    if result.several is None:
        if name:
            raise SystolicError(f"{option}: {result.chip.name} has one core, found {name}")
        return ""
    cores = [f"core{number}" for number in range(result.several.chip.core_count)]
    if name and name not in cores:
        raise SystolicError(f"{option}: no {name} (there are: {listed(cores)})")
    return name or cores[0]


def snapshot(result: Result, images: Sequence[Image], cycle: int, core: str = "") -> Snapshot:
    """Return the machine, or one of its cores, at the end of a cycle of its array.

    `result` must be of a run that recorded the kinds `WRITES` and kept the grid; `images` are the
    memory contents at its start. Raises SystolicError for a cycle outside the run.
    """
    array = f"{core}.pe_array" if core else result.trace.array
    total = result.trace.cycles(array)
    if not 0 <= cycle < total:
        raise SystolicError(f"the run has cycles 0 to {total - 1}, found {cycle}")
    chip = result.several.chip.core_chips[int(core[4:])] if result.several else result.chip
    memory = Memory(chip, result.program, images)
    written = {
        buffer: np.zeros(memory.bytes_of(buffer).shape, np.bool_)
        for buffer in (Buffer.STATE, Buffer.RESULT)
    }
    for image in images:
        _mark(written, image)
    until = (cycle + 1) * result.trace.periods[array]
    rows = result.trace.words.rows
    rows = rows[np.isin(rows["kind"], [KINDS.index(kind) for kind in WRITES])]
    rows = _of_core(result, rows[rows["tick"] < until], core)
    _apply(rows, memory, written)
    return Snapshot(
        cycle=cycle,
        grid=grid_of(result, core).at(cycle),
        state_buffer=memory.bytes_of(Buffer.STATE),
        result_buffer=memory.bytes_of(Buffer.RESULT),
        written=written,
    )


def _mark(written: dict[Buffer, npt.NDArray[np.bool_]], image: Image) -> None:
    access = image.access
    if access.buffer in written:
        size = access.element_bytes
        bytes_ = (access.offsets()[:, None] * size + np.arange(size)).ravel()
        lanes = slice(access.partition, access.partition + access.partitions)
        written[access.buffer][lanes, bytes_] = True


def _apply(
    rows: npt.NDArray[np.void], memory: Memory, written: dict[Buffer, npt.NDArray[np.bool_]]
) -> None:
    """Write recorded words, which are in order of time, into the memories."""
    alike = (rows["buffer"][1:] == rows["buffer"][:-1]) & (rows["type"][1:] == rows["type"][:-1])
    for mine in np.split(rows, np.flatnonzero(~alike) + 1):
        buffer = Buffer(BUFFERS[mine["buffer"][0]]) if mine.size else Buffer.DRAM
        if buffer in written:
            size = 4 if buffer is Buffer.RESULT else VALUE_TYPES[mine["type"][0]][1].itemsize
            _store(mine, memory.bytes_of(buffer), written[buffer], size)


def _of_core(result: Result, rows: npt.NDArray[np.void], core: str) -> npt.NDArray[np.void]:
    """Return the words that lie in the buffers of a core, or in DRAM; all, if there is one core."""
    if result.several is None:
        return rows
    owner = rows["core"]
    mine: npt.NDArray[np.void] = rows[(owner == NO_CORE) | (owner == int(core[4:]))]
    return mine


def grid_of(result: Result, core: str) -> GridHistory:
    """Return the history of the grid of a core."""
    grid = result.trace.grid
    if result.several is None:
        return grid
    joint = result.several
    chip = joint.chip.core_chips[int(core[4:])]

    def is_own(instruction: int) -> bool:
        return joint.launches[joint.launch_of[instruction]].at == core

    loads = tuple(each for each in grid.loads if is_own(each.instruction))
    multiplies = tuple(each for each in grid.matmuls if is_own(each.instruction))
    return GridHistory(grid_shape(chip), loads, multiplies)


def _store(
    rows: npt.NDArray[np.void],
    storage: npt.NDArray[np.uint8],
    written: npt.NDArray[np.bool_],
    size: int,
) -> None:
    raw = rows["bits"].astype("<u4").view(np.uint8).reshape(-1, 4)[:, :size]
    columns = rows["address"][:, None] * size + np.arange(size)
    storage[rows["partition"][:, None], columns] = raw
    written[rows["partition"][:, None], columns] = True


def as_json(shot: Snapshot, pe: tuple[int, int] | None = None) -> dict[str, Any]:
    """Return a snapshot as plain data: the grid's planes (R x C lists, or one PE) and occupancy."""
    planes = {
        "moving": shot.grid.moving,
        "weight": shot.grid.weight,
        "shadow": shot.grid.shadow,
        "sum": shot.grid.sum,
        "valid": shot.grid.valid.astype(np.int64),
    }
    where: Any = pe if pe else ...
    rows, cols = shot.grid.valid.shape
    if pe and not (0 <= pe[0] < rows and 0 <= pe[1] < cols):
        raise SystolicError(f"the array has {rows} x {cols} PEs, found {pe[0]},{pe[1]}")
    return {
        "cycle": shot.cycle,
        **({"pe": list(pe)} if pe else {}),
        "pe_array": {name: _plain(plane[where]) for name, plane in planes.items()},
        "result_buffer": {
            "occupied_words": [n // 4 for n in shot.occupancy(Buffer.RESULT)],
        },
        "state_buffer": {"occupied_bytes": shot.occupancy(Buffer.STATE)},
    }


def _plain(plane: Any) -> Any:
    """Return numbers that JSON can hold: NaN and infinities become text."""
    if np.ndim(plane):
        return [_plain(part) for part in plane]
    value = plane.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class Change:
    """A write of a word: the writing unit, its cycle (of its own clock), the value as text."""

    cycle: int
    unit: str
    value: str


class Place(NamedTuple):
    """A word: its buffer, its partition, and the number of the element there, from 0."""

    buffer: Buffer
    partition: int
    address: int


def changes(result: Result, place: Place, dtype: str, core: str = "") -> list[Change]:
    """Return every write of one word, in order of time, from a run that recorded `WRITES`.

    Elements of another size than `dtype` have other numbers, and so are other words.
    """
    found: list[tuple[int, Change]] = []
    for kind in WRITES:
        table = result.trace.words.of(kind)
        rows = table.rows
        mask = (rows["partition"] == place.partition) & (rows["address"] == place.address)
        mask &= rows["buffer"] == BUFFERS.index(place.buffer)
        mask &= _is_as_large(rows["type"], place.buffer, dtype)
        chosen = WordTable(_of_core(result, rows[mask], core), table.units)
        for row, value in zip(chosen.rows, chosen.values(), strict=True):
            unit = table.units[row["unit"]]
            cycle = int(row["tick"]) // result.trace.periods[unit]
            found.append((int(row["tick"]), Change(cycle, unit, value)))
    return [change for _, change in sorted(found, key=lambda item: item[0])]


def _is_as_large(
    types: npt.NDArray[np.uint8], buffer: Buffer, dtype: str
) -> npt.NDArray[np.bool_] | bool:
    """Return which types have elements of the size of `dtype`; in the result buffer all have."""
    if buffer is Buffer.RESULT:
        return True
    sizes = np.array([each.itemsize for _, each in VALUE_TYPES])
    same: npt.NDArray[np.bool_] = sizes[types] == dict(VALUE_TYPES)[dtype].itemsize
    return same


def type_of_word(result: Result, images: Sequence[Image], place: Place, core: str = "") -> str:
    """Return the type in which a run first reaches a word: what lies there first, then accesses.

    A word that nothing reaches is f32.
    """
    first = [image.access for image in images]
    later = (
        access
        for index, each in enumerate(result.program.instructions)
        for at, access in _placed(result, index, each)
        if not core or access.buffer is Buffer.DRAM or at == core
    )
    reached = (access.dtype for access in (*first, *later) if _reaches(access, place))
    return next(reached, "f32")


def _placed(result: Result, index: int, instruction: Instruction) -> Iterator[tuple[str, Access]]:
    """Yield what an instruction reads and writes, with the core that has it."""
    joint = result.several
    own = "" if joint is None else joint.launches[joint.launch_of[index]].at
    if isinstance(instruction, DmaMove):
        for _, at, access in copy_ends(instruction):
            yield at or own, access
        return
    for access in (*reads(instruction), *writes(instruction)):
        yield own, access


def _reaches(access: Access, place: Place) -> bool:
    if access.buffer is not place.buffer:
        return False
    inside = access.partition <= place.partition < access.partition + access.partitions
    return inside and bool((access.offsets() == place.address).any())


def first_change(writes: Sequence[Change], initial: str) -> Change | None:
    """Return the first write that changes a word from its value at cycle 0."""
    return next((change for change in writes if change.value != initial), None)


def first_difference(writes: Sequence[Change], initial: str, expected: str) -> Change | None:
    """Return the first moment at which a word differs from a reference value.

    That is cycle 0 if the initial value differs.
    """
    if initial != expected:
        return Change(0, "initial contents", initial)
    return next((change for change in writes if change.value != expected), None)


def initial_value(memory: Memory, place: Place, dtype: str) -> str:
    """Return a word's value at cycle 0 as decimal text, read as `dtype`."""
    buffer, partition, address = place
    numpy = dict(VALUE_TYPES)[dtype]
    storage = memory.bytes_of(buffer)
    size = 4 if buffer is Buffer.RESULT else numpy.itemsize
    if not (0 <= partition < storage.shape[0] and 0 <= (address + 1) * size <= storage.shape[1]):
        raise SystolicError(
            f"{buffer} has {storage.shape[0]} partitions of {storage.shape[1] // size} words of "
            f"{size} bytes, found partition {partition}, word {address}"
        )
    raw = storage[partition, address * size : address * size + numpy.itemsize]
    return decimal(raw.copy().view(numpy)[0])


assert set(WRITES) <= set(KINDS)
