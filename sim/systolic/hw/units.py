"""The units of a chip and their queues: names and kinds, said once.

A unit is named as its table in a chip file. Each unit has one queue of the same name, but for the
DMA engine, which has several: ``dma0``, ``dma1``, ... What the units are like is in
`systolic.hw.spec`.
"""

from __future__ import annotations

from typing import Literal, get_args

EngineName = Literal["activation", "pooling"]
"""An engine of the machine. (How the machine is simulated, by "event" or "register", is an
EngineKind.)"""
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

UnitName = Literal["pe_array", "activation", "pooling", "dma"]
UNITS: tuple[UnitName, ...] = get_args(UnitName)
"""The units with a clock and queues, in the order of the reports."""

Client = Literal["moving", "weights", "activation", "pooling", "dma"]
CLIENTS: tuple[Client, ...] = get_args(Client)
"""The clients of the memory ports. The array is two, one for moving operands, one for weights."""

QueueKind = Literal["array", "engine", "dma"]
_KINDS: dict[UnitName, QueueKind] = {
    "pe_array": "array",
    "activation": "engine",
    "pooling": "engine",
    "dma": "dma",
}


def dma_queue(number: int) -> str:
    """Return the name of a DMA queue, ``dma3``."""
    return f"dma{number}"


def queue_names(dma_queues: int) -> tuple[str, ...]:
    """Return the names of all queues of a chip with that many DMA queues, in reports' order."""
    return ("pe_array", *ENGINES, *(dma_queue(q) for q in range(dma_queues)))


def unit_of(queue: str) -> UnitName:
    """Return the unit a queue belongs to: ``dma`` for ``dma3``."""
    name = queue.rstrip("0123456789")
    return next(unit for unit in UNITS if unit == name)


def kind_of(queue: str) -> QueueKind:
    """Return what kind of queue it is."""
    return _KINDS[unit_of(queue)]
