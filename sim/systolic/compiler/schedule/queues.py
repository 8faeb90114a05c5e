"""Which DMA queue a copy is given to: the one of its direction that will be free first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from systolic.compiler.cost.dma import CopyTime, engine_pool
from systolic.hw.spec import Chip

SPARED = 0.25
"""Where stores would fill less than this part of one queue, loads use that queue as well."""


@dataclass(slots=True)
class DmaQueues:
    """DMA queues by direction, and how busy each will be.

    inwards_share: the share of the moved bytes that comes in; None: every queue does both.
    """

    chip: Chip
    inwards_share: float | None
    busy: dict[int, int] = field(default_factory=dict)
    engines: dict[int, float] = field(default_factory=dict)

    def pick(
        self,
        *,
        inwards: bool,
        time: CopyTime,
        anywhere: bool,
        besides: Collection[int] = (),
        beside: int = 1,
    ) -> int:
        """Return the queue that will be free first: it, and the DMA engine that it belongs to.

        Of two that are equal the one of the direction is taken. besides: queues that move other
        parts of the same tile, which are not taken if others can be. beside: how many times as many
        queues as are useful otherwise are taken.
        """
        own: Collection[int] = self._of_direction(inwards=inwards)
        some: Collection[int] = range(self.chip.dma.useful_queues) if anywhere else own
        if beside > 1:
            own, some = (self._with_others(queues, beside) for queues in (own, some))
        others = [queue for queue in some if queue not in besides]
        queue = min(others or some, key=lambda each: (*self._free_at(each), each not in own))
        return self.give(queue, time)

    def give(self, queue: int, time: CopyTime) -> int:
        """Give a copy to a queue, and return the queue."""
        engine = engine_pool(self.chip, queue)
        self.busy[queue] = self.busy.get(queue, 0) + time.cycles
        self.engines[engine] = self.engines.get(engine, 0) + time.engine
        return queue

    def _with_others(self, queues: Collection[int], times: int) -> list[int]:
        """Return these queues and the next ones of their direction, `times` times as many."""
        dma = self.chip.dma
        found = (queue + n * dma.useful_queues for n in range(times) for queue in queues)
        return [queue for queue in found if queue < dma.queues]

    def done(self, time: CopyTime) -> int:
        """Return the cycle in which the queue that is free first would be done with a copy."""
        return (
            min(self.busy.get(queue, 0) for queue in range(self.chip.dma.useful_queues))
            + time.cycles
        )

    @property
    def of_loads(self) -> int:
        """Return how many queues bring."""
        return len(self._of_direction(inwards=True))

    def loads_are_over(self) -> None:
        """Note that the queues of loads are as free as the queues of stores.

        What is stored now depends on what they have brought, so they are done with it.
        """
        if self.inwards_share is None:
            return  # they have stored as well
        least = min(self.busy.get(queue, 0) for queue in self._of_direction(inwards=False))
        for queue in self._of_direction(inwards=True):
            self.busy[queue] = least
        self.engines.clear()

    def only_loads_so_far(self) -> None:
        """Note that every queue is free when stores begin, since they depend on all loads."""
        self.busy.clear()
        self.engines.clear()

    def _of_direction(self, *, inwards: bool) -> range:
        """Return the queues of one direction; a lone queue has both."""
        count = self.chip.dma.useful_queues
        if self.inwards_share is None:
            return range(count)
        bring = min(max(1, round(count * self.inwards_share)), max(1, count - 1))
        if inwards and (1 - self.inwards_share) * count < SPARED:
            return range(count)
        return range(bring) if inwards else range(min(bring, count - 1), count)

    def _free_at(self, queue: int) -> tuple[float, float]:
        """Return when a queue can move more bytes, and what comes first of two that are equal."""
        own = self.busy.get(queue, 0)
        engine = self.engines.get(engine_pool(self.chip, queue), 0)
        dma = self.chip.dma
        by_engine = dma.queues_per_engine > 1 and not dma.is_spread
        return max(own, engine), engine if by_engine else own
