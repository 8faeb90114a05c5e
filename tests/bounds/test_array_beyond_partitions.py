"""Is the bound right of an array that has more rows and columns than there are partitions?"""

from __future__ import annotations

import pytest

import systolic
from support.chips import ideal_chip
from support.command_line import run_command
from systolic.workload import GraphBuilder


@pytest.mark.parametrize("partitions", [4, 8])
def test_rows_without_a_partition_take_no_vectors(partitions: int) -> None:
    """Multiply-adds of rows of 4 or 8 times 8 columns, and of two engines in lanes of 4 or 8."""
    state = {"partitions": partitions, "bytes_per_partition": 1 << 16}
    chip = ideal_chip(8, 8, state_buffer=state)
    builder = GraphBuilder(home="state_buffer")
    builder.tensor("x", "f32[64,32]{0,1}")
    builder.tensor("w", "f32[32,8]")
    builder.matmul("x", "w", "f32[64,8]", name="y")
    summary = systolic.run(builder.graph(), chip, values=False).summary
    least = 64 * 32 * 8 / (partitions * 8 + 2 * partitions)
    assert least <= summary["bound"]["cycles"] < least + 32
    assert summary["cycles"] >= summary["bound"]["cycles"]
    note = "multiply-adds of pe_array, 4 of whose 8 rows have a partition"
    assert summary["bound"]["why"].startswith(note) == (partitions == 4)
    reach = {"rows": 8, "used_rows": 4, "cols": 8, "used_cols": 4, "partitions": 4}
    assert summary.get("array_reach") == (reach if partitions == 4 else None)


def test_the_screen_says_so(tmp_path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(
        'chip = "ideal_4x4"\n[workload]\nop = "matmul"\nlhs = "f32[8,8]{0,1}"\nrhs = "f32[8,8]"\n'
        'out = "f32[8,8]"\n'
    )
    wide = ("--set", "chip.pe_array.rows=8", "--set", "chip.pe_array.cols=8")
    _, out, _ = run_command("run", path, "--no-plots", "--out", tmp_path / "out", *wide)
    text = " ".join(out.split())
    assert (
        "array 4 of 8 rows and 4 of 8 columns are used: the state buffer has 4 partitions" in text
    )
