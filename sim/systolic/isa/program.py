"""A Program: instructions in program order and the names of its semaphores. A frozen value.

The order matters inside each queue only; across queues, semaphores alone order anything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from systolic.isa.array_tile import ArrayTile
from systolic.isa.instruction import Instruction, LoadWeights, MatMul


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Program:
    """Instructions for all queues of one chip, and a name for each semaphore (by its number).

    Both may be given as any sequence and are kept as tuples.
    """

    name: str
    instructions: tuple[Instruction, ...]
    semaphores: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "instructions", tuple(self.instructions))
        object.__setattr__(self, "semaphores", tuple(self.semaphores))

    def queues(self) -> dict[str, list[int]]:
        """Return, for each queue that is used, the indices of its instructions in order."""
        queues: dict[str, list[int]] = {}
        for index, instruction in enumerate(self.instructions):
            queues.setdefault(instruction.queue, []).append(index)
        return queues

    def posters(self) -> tuple[str, ...]:
        """Return, by semaphore number, the units that post it, joined by "+"."""
        units: list[dict[str, None]] = [{} for _ in self.semaphores]
        for instruction in self.instructions:
            for post in instruction.posts:
                units[post.semaphore][instruction.queue] = None
        return tuple("+".join(names) or "no unit" for names in units)

    def products(self) -> int:
        """Return how many products the array makes in all: rows x columns loaded x vectors."""
        products, columns = 0, dict[ArrayTile | None, int]()
        for instruction in self.instructions:
            if isinstance(instruction, LoadWeights):
                columns[instruction.tile] = instruction.columns
            elif isinstance(instruction, MatMul):
                rows = instruction.moving.partitions * instruction.rows_per_pe
                products += rows * instruction.vectors * columns.get(instruction.tile, 0)
        return products

    def count(self) -> dict[str, int]:
        """Return how many instructions of each kind there are, by class name, sorted."""
        return dict(sorted(Counter(type(i).__name__ for i in self.instructions).items()))
