"""Tensors at home on the chip that have no room there, whatever the plan: refused before planning.

The inputs are there together at cycle 0, the outputs at the end. Not here: what else needs room
meanwhile, which a plan finds out (`compiler.place`).
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.compiler.ir.carried import memory_bytes
from systolic.compiler.ir.on_chip.homes import Scattered
from systolic.element_types import BYTE_BITS
from systolic.errors import RoomError
from systolic.hw.spec import Chip
from systolic.workload import Graph, Tensor


def check_room(graph: Graph, chip: Chip) -> None:
    """Refuse tensors that are too large for the state buffer.

    Raises CompileError for tiles that are higher than the partitions, for a tensor that takes more
    bytes of its partitions than these have, and for inputs, or outputs, that together have more
    bytes than the whole buffer.
    """
    for _, tensor in graph.tensors:
        if tensor.home == "state_buffer" and tensor.shape.layout.tiles:
            Scattered.of(tensor, chip)  # raises if a tile is too high
    for names, what in ((graph.inputs, "inputs"), (graph.outputs, "outputs")):
        at_home = [name for name in names if graph.tensor(name).home == "state_buffer"]
        for name in at_home:
            _check_alone(name, graph.tensor(name), chip)
        _check_together(what, [graph.tensor(name) for name in at_home], chip)


def _check_alone(name: str, tensor: Tensor, chip: Chip) -> None:
    taken, partitions = _taken(tensor, chip)
    room = chip.state_buffer.bytes_per_partition
    if taken > room:
        tiles = "in its tiles " if tensor.shape.layout.tiles else ""
        raise RoomError(
            f"state_buffer of {chip.name} has no room for {name}: {tiles}{tensor.shape} takes "
            f"{taken} bytes of each of {partitions} partitions, found {room}"
        )


def _check_together(what: str, tensors: Sequence[Tensor], chip: Chip) -> None:
    buffer = chip.state_buffer
    found = [_taken(tensor, chip) for tensor in tensors]
    taken = -(-sum(size * partitions for size, partitions in found) // buffer.partitions)
    if taken > buffer.bytes_per_partition:
        raise RoomError(
            f"state_buffer of {chip.name} has no room for the {what}: they need at least {taken} "
            f"bytes of each of {buffer.partitions} partitions, found {buffer.bytes_per_partition}"
        )


def _taken(tensor: Tensor, chip: Chip) -> tuple[int, int]:
    """Return the least bytes that a tensor takes of a partition, and how many partitions."""
    if tensor.shape.layout.tiles:
        lies = Scattered.of(tensor, chip).spreading
        return lies.elements * tensor.shape.element_bits // BYTE_BITS, lies.partitions
    partitions = chip.state_buffer.partitions - tensor.partition
    return memory_bytes(tensor.shape) // partitions, partitions
