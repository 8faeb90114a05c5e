"""Does the harness say what is wrong? Missing tools, endless programs, bad configurations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from rtl_harness import Load, Mul, RtlConfig, RtlProgram, simulate

pytestmark = pytest.mark.rtl

CONFIG = RtlConfig(rows=2, columns=3, state_words=64, result_words=64)
PROGRAM = RtlProgram(
    instructions=(Load(rows=2, columns=3), Mul(rows=2, columns=3, vectors=4, moving_address=3)),
    state=np.arange(20, dtype=np.int8).reshape(2, 10),
)


@pytest.mark.parametrize("name", ["verilator", "icarus"])
def test_a_missing_tool_skips_and_says_so(
    name: str, need: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("SYSTOLIC_REQUIRE_RTL", raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"{name} needs .* not on PATH"):
        need(name)


def test_a_missing_tool_fails_where_the_rtl_is_required(
    need: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("SYSTOLIC_REQUIRE_RTL", "1")
    with pytest.raises(pytest.fail.Exception, match="SYSTOLIC_REQUIRE_RTL=1 forbids skipping"):
        need("verilator")


def test_a_program_that_does_not_end_is_an_error(tool: str) -> None:
    with pytest.raises(RuntimeError, match="did not finish its program within 5 cycles"):
        simulate(CONFIG, PROGRAM, tool, limit=5)


def test_the_number_of_cycles_can_be_given(tool: str) -> None:
    trace = simulate(CONFIG, PROGRAM, tool, cycles=9)
    whole = simulate(CONFIG, PROGRAM, tool)
    assert trace.cycles == len(trace.sum) == 9
    assert (trace.sum == whole.sum[:9]).all()
    assert (trace.injections == whole.injections).all()
    assert len(trace.writes) < len(whole.writes)


def test_the_dumps_can_be_switched_off(tool: str) -> None:
    trace = simulate(CONFIG, PROGRAM, tool, planes=False, events=False)
    assert trace.cycles > 0
    assert trace.sum.shape == (0, 2, 3)
    assert len(trace.writes) == 0


def test_impossible_configurations_are_refused() -> None:
    with pytest.raises(ValueError, match="weight_path is 'right', allowed: left, top"):
        replace(CONFIG, weight_path="right")
    with pytest.raises(ValueError, match="2 x 3 PEs are no multiple of"):
        replace(CONFIG, cell=(1, 2))


def test_a_state_of_the_wrong_type_is_refused(need: Callable[[str], str]) -> None:
    need("icarus")
    wrong = replace(PROGRAM, state=PROGRAM.state.astype(np.float32))
    with pytest.raises(ValueError, match="state is float32"):
        simulate(CONFIG, wrong, "icarus")


def test_what_the_bench_has_no_room_for_is_refused(need: Callable[[str], str]) -> None:
    need("icarus")
    with pytest.raises(ValueError, match="1026 instructions, the bench holds 1024"):
        simulate(CONFIG, replace(PROGRAM, instructions=PROGRAM.instructions * 513), "icarus")
    with pytest.raises(ValueError, match="10 words per partition, the bench holds 8"):
        simulate(replace(CONFIG, state_words=8), PROGRAM, "icarus")
    late = replace(PROGRAM, moving_refused=np.ones(70_000, dtype=bool))
    with pytest.raises(ValueError, match="70000 cycles of refusals, the bench holds 65536"):
        simulate(CONFIG, late, "icarus")
