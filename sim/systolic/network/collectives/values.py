"""`systolic.network.exchange`: what a collective leaves at each rank, summed in its own order.

The sends of the program are made on numpy arrays, step by step; so the values are the values of the
messages that the network moves. Sums are of the arrays' own type, one rounding each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.errors import ConfigError
from systolic.network.collectives.collective import Collective, program_of, slice_bounds
from systolic.network.collectives.program import CollectiveProgram, Receipt


def exchange(
    operation: str,
    arrays: Sequence[Array],
    algorithm: str = "",
    *,
    shape: tuple[int, ...] = (),
    slices: int = 1,
    root: int = 0,
) -> list[Array]:
    """Return what each rank has after a collective.

    Args:
        operation: as for `collective`.
        arrays: one for each rank, all of one shape and type. Of an all_gather the rank's own part.
        algorithm: as for `collective`.
        shape: of a torus, x first; needed by the algorithm torus.
        slices: parts of every chunk; values do not depend on them but by where chunks end.
        root: the rank whose array a broadcast sends.

    Returns:
        For each rank a new array: of all_reduce, broadcast, all_to_all and send_receive in the
        shape of the inputs; of all_gather all parts, one after the other along the first axis; of
        reduce_scatter the rank's chunk, flat.

    Raises:
        ConfigError: as for `collective`, or arrays that are not alike.

    """
    first = np.asarray(arrays[0])
    if any(
        np.shape(each) != first.shape or np.asarray(each).dtype != first.dtype for each in arrays
    ):
        raise ConfigError("exchange: the arrays of all ranks need one shape and one type")
    ranks = len(arrays)
    gathers = operation == "all_gather"
    size = first.size * (ranks if gathers else 1)
    asked = Collective(operation, max(1, size), algorithm, slices, root=root)
    program = program_of(asked, ranks, shape)
    bounds = slice_bounds(size, program.chunks, slices)
    data = [np.array(each).ravel() for each in arrays]
    if gathers:
        data = [_in_its_place(each, rank, ranks, size) for rank, each in enumerate(data)]
    for number in range(slices):
        begins = program.places * slices + number
        _run(program, data, bounds[begins], bounds[begins + 1])
    if gathers:
        return [each.reshape(ranks * first.shape[0], *first.shape[1:]) for each in data]
    if operation == "reduce_scatter":
        ends = bounds[:: program.chunks // ranks * slices]
        return [each[ends[rank] : ends[rank + 1]] for rank, each in enumerate(data)]
    return [each.reshape(first.shape) for each in data]


def _in_its_place(part: Array, rank: int, ranks: int, size: int) -> Array:
    """Return the whole result of an all_gather, in which a rank knows its own part only."""
    whole = np.zeros(size, part.dtype)
    whole[rank * part.size : (rank + 1) * part.size] = part
    return whole


def _run(program: CollectiveProgram, data: list[Array], begins: Array, ends: Array) -> None:
    """Make all sends of one slice; begins, ends: of that slice in each chunk."""
    steps = np.flatnonzero(np.diff(program.steps, prepend=-1))
    for sends in np.split(np.arange(len(program.steps)), steps[1:]):
        _step(program, sends.tolist(), data, (begins, ends))


def _step(
    program: CollectiveProgram, sends: list[int], data: list[Array], bounds: tuple[Array, Array]
) -> None:
    """Make the sends of one step: each takes what was there before the step."""
    begins, ends = bounds
    received: defaultdict[tuple[int, int], list[tuple[int, Receipt, Array]]] = defaultdict(list)
    for send in sends:
        source, target = int(program.sources[send]), int(program.targets[send])
        for chunk in range(program.first[send], program.stop[send]):
            lands = int(program.lands[send] + chunk - program.first[send])
            part = data[source][begins[chunk] : ends[chunk]].copy()
            received[target, lands].append((source, Receipt(program.receipts[send]), part))
    for (target, chunk), parts in received.items():
        place = slice(begins[chunk], ends[chunk])
        data[target][place] = _taken(target, data[target][place], parts)


def _taken(target: int, own: Array, parts: list[tuple[int, Receipt, Array]]) -> Array:
    """Return what a node makes of its own data and those that it received in one step."""
    _, receipt, first = parts[0]
    if receipt is Receipt.COPY:
        return first
    if receipt is Receipt.RECEIVED_FIRST:
        return first + own
    ranked = sorted([(target, own), *((source, part) for source, _, part in parts)], key=_rank)
    total = ranked[0][1]
    for _, part in ranked[1:]:
        total = total + part
    return total


def _rank(part: tuple[int, Array]) -> int:
    return part[0]
