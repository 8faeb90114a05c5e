"""Is the work of a Python caller checked like that of a run file, mistakes of the compiler too?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import systolic.run.execute
from support.chips import ideal_chip
from systolic.errors import ProgramError
from systolic.isa import Program
from systolic.workload import GraphBuilder


def product() -> Any:
    builder = GraphBuilder(home="dram")
    left, right = builder.tensor("a", "f32[4,4]"), builder.tensor("b", "f32[4,4]")
    builder.matmul(left, right, "f32[4,4]", name="y")
    return builder.graph()


def without_waits(program: Program) -> Program:
    bare = tuple(replace(one, waits=()) for one in program.instructions)
    return replace(program, instructions=bare)


@pytest.mark.parametrize("values", [True, False])
def test_a_program_with_races_is_refused(monkeypatch: pytest.MonkeyPatch, values: bool) -> None:
    made = systolic.run.execute.compile_graph

    def racy(*arguments: Any, **named: Any) -> Any:
        compiled = made(*arguments, **named)
        late = replace(compiled.synchronised, program=without_waits(compiled.program))
        return replace(compiled, synchronised=late)

    graph, chip = product(), ideal_chip(4, 4)
    inputs = {name: np.eye(4, dtype=np.float32) for name in "ab"} if values else None
    systolic.run(graph, chip, inputs)
    monkeypatch.setattr(systolic.run.execute, "compile_graph", racy)
    with pytest.raises(ProgramError, match="read-after-write"):
        systolic.run(graph, chip, inputs)
