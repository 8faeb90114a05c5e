"""What a run leaves can be sent to another process, compiled or not."""

from __future__ import annotations

import pickle

from support.blocks import state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from systolic.isa import Copy, LoadWeights, Program
from systolic.isa.lint.lint import lint
from systolic.machine import simulate
from systolic.machine.simulate import Outcome

PROGRAM = Program(
    "sent",
    (
        LoadWeights(weights=state(0, 4, 0, 4)),
        Copy(engine="pooling", source=state(0, 4, 0, 4), target=state(0, 4, 64, 4)),
        Copy(engine="activation", source=state(0, 4, 0, 4), target=state(0, 4, 64, 4)),
    ),
)


def test_a_trace_and_findings_come_back_from_another_process() -> None:
    found = simulate(ideal_chip(4, 4), PROGRAM, values=False)
    trace = pickle.loads(pickle.dumps(found.trace))
    assert found.trace.times
    assert_same(Outcome(trace, found.memory), found)
    findings = lint(PROGRAM, ideal_chip(4, 4))
    assert [each.code for each in findings] == ["write-after-write"]
    assert pickle.loads(pickle.dumps(findings)) == findings
    assert pickle.loads(pickle.dumps(PROGRAM)) == PROGRAM
