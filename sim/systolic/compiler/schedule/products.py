"""Products: the array streams moving tiles through stationary ones, and sums grow in PSUM."""

from __future__ import annotations

from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.nodes import Matrix, MultiplyNode, operand_number
from systolic.compiler.ir.tasks import Task
from systolic.compiler.place.tiles import OnChip
from systolic.compiler.schedule.engine_work import EngineWork
from systolic.compiler.schedule.sums import SumBanks
from systolic.hw.datatypes import data_type
from systolic.isa import LoadWeights, MatMul
from systolic.spans import Span


class ProductMaker:
    """Makes the instructions of products whose tiles are all in place."""

    def __init__(self, drafts: Drafts, tiles: OnChip, engines: EngineWork, sums: SumBanks) -> None:
        """Note where sums grow, and who takes them out."""
        self._drafts, self._tiles = drafts, tiles
        self._matrices, self._engines, self._sums = tiles.matrices, engines, sums

    def multiply(self, task: Task, node: MultiplyNode) -> None:
        """Stream the moving tiles through each stationary one, adding to the group's sums."""
        a, b, out = (self._matrices[n] for n in (*node.inputs[:2], node.output))
        if not task.rows:
            self._engines.fill(task, out, node.step.settings["other"])
            return
        (rows,) = task.rows
        for cols in task.cols:
            number = operand_number(a, out, task.number)
            place, weights = self._tiles.reach(a, number, rows, cols)
            self._drafts.add(LoadWeights(weights=weights), (place.region,), ())
            for moving in task.moving:
                which = (task.node, task.number, cols.first, moving.first)
                bank = self._sums.grow(which, first=task.first, last=task.last)
                self._product(task, node, (b, out), (cols, moving), bank)

    def _product(
        self,
        task: Task,
        node: MultiplyNode,
        matrices: tuple[Matrix, Matrix],
        where: tuple[Span, Span],
        bank: int,
    ) -> None:
        """Add one chunk's products to a bank; if they are the last, copy the sums out."""
        (b, out), (rows,), (cols, moving) = matrices, task.rows, where
        number = operand_number(b, out, task.number)
        sums, region = self._sums.access(
            data_type(b.dtype).accumulator, cols.count, moving.count, bank
        )
        place, vectors = self._tiles.reach(b, number, rows, moving)
        multiply = MatMul(moving=vectors, result=sums, accumulate=not task.first)
        self._drafts.add(multiply, (place.region,), (region,), accumulates=not task.first)
        if task.last:
            self._engines.take_out(node, (sums, region), (out, task.number), where)
