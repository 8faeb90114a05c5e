"""Compile a graph: the five passes in order, each with a result that can be printed.

graph (layers, nodes, connections) -> tile (tasks on tiles) -> place and schedule (tiles in
memory, instructions in queues) -> sync (semaphores). The program is checked at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from systolic.compiler.ir.nodes import Layers
from systolic.compiler.ir.tasks import Tiled
from systolic.compiler.lower.blocks import equation_1
from systolic.compiler.lower.table import lower_graph
from systolic.compiler.options import Options
from systolic.compiler.plans import Plan, best_plan
from systolic.compiler.schedule.schedule import Scheduled
from systolic.compiler.sync.semaphores import Saving, Synchronised, synchronise_drafts
from systolic.hw.spec import Chip
from systolic.isa import Program, check_program
from systolic.layout import Decomposition
from systolic.workload import Graph


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A program and everything that led to it.

    blocks: those of equation 1, and their sub-blocks, if the graph is a transpose.
    """

    graph: Graph
    options: Options
    blocks: Decomposition | None
    layers: Layers
    plan: Plan
    synchronised: Synchronised

    @property
    def tiled(self) -> Tiled:
        """Return the tasks on tiles."""
        return self.plan.tiled

    @property
    def scheduled(self) -> Scheduled:
        """Return the instructions with their dependencies, and where tiles lay."""
        return self.plan.scheduled

    @property
    def program(self) -> Program:
        """Return the program."""
        return self.synchronised.program

    @property
    def tiles(self) -> int:
        """Return how many tiles the work was cut into."""
        return len({t for task in self.tiled.tasks for t in (*task.reads, *task.writes)})

    @property
    def saving(self) -> Saving:
        """Return what the last pass removed."""
        return self.synchronised.saving


def compile_graph(
    name: str, graph: Graph, chip: Chip, options: Options | None = None
) -> CompiledGraph:
    """Compile a graph for a chip.

    Raises CompileError if a type, a tensor or a tile does not fit the chip.
    """
    options = options or Options()
    layers = lower_graph(graph, chip, options)
    plan = best_plan(layers, chip, options)
    synchronised = synchronise_drafts(name, plan.scheduled.drafts)
    check_program(synchronised.program, chip)
    blocks = equation_1(graph, chip, options)
    return CompiledGraph(graph, options, blocks, layers, plan, synchronised)
