"""Is what a layout costs said: what is transposed on the way, and as what it would not be?"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from support.chips import ideal_chip
from support.command_line import run_command
from systolic import run
from systolic.config.chip_file import load_chip
from systolic.report.summary.table import lost_text
from systolic.report.summary.transposed import transposed_texts
from systolic.shipped import CONFIGS
from systolic.workload import GraphBuilder

CHIPS = CONFIGS / "chips"
Record = dict[str, Any]


def product(lhs: str, rhs: str, out: str, *, home: Any = "state_buffer") -> Any:
    builder = GraphBuilder(home=home)
    names = builder.tensor("lhs", lhs), builder.tensor("rhs", rhs)
    builder.matmul(*names, out, name="y")
    return builder.graph()


def record(graph: Any, chip: str) -> tuple[int, Record]:
    result = run(graph, load_chip(CHIPS / f"{chip}.toml"))
    (operation,) = result.summary["operations"]
    return result.cycles, operation


@pytest.mark.parametrize(
    ("chip", "lhs", "rhs", "out", "cycles", "as_it_would_be", "text"),
    [
        (
            "ideal_4x4", "f32[4,4]", "f32[4,4]", "f32[4,4]", 38, 19,
            "lhs is transposed on the way: 4 of 8 vectors; as {0,1} it would not be",
        ),
        (
            "ideal_128x128", "bf16[512,32]", "bf16[32,512]", "f32[512,512]", 6011, 2943,
            "lhs is transposed on the way: 512 of 2,560 vectors; as {0,1} it would not be",
        ),
    ],
)  # fmt: skip
def test_cases(
    chip: str, lhs: str, rhs: str, out: str, cycles: int, as_it_would_be: int, text: str
) -> None:
    """Public cases: so many cycles, which the layout explains."""
    found, operation = record(product(lhs, rhs, out), chip)
    assert found <= cycles
    assert transposed_texts({"operations": [operation]}) == [text]
    better, other = record(product(lhs + "{0,1}", rhs, out), chip)
    assert better <= as_it_would_be < found
    assert transposed_texts({"operations": [other]}) == []


def random_product(random: Random) -> tuple[tuple[str, str, str], str]:
    m, k, n = (random.randint(1, 40) for _ in range(3))
    layouts = [random.choice(["", "{0,1}", "{1,0}"]) for _ in range(2)]
    dtype = random.choice(["f32", "bf16"])
    shapes = f"{dtype}[{m},{k}]{layouts[0]}", f"{dtype}[{k},{n}]{layouts[1]}", f"f32[{m},{n}]"
    return shapes, random.choice(["state_buffer", "dram"])


@pytest.mark.parametrize("seed", range(40))
def test_vectors_are_those_that_the_program_turns(seed: int) -> None:
    """The cycles of identity products are counted from the program, without asking for tensors."""
    random = Random(seed)
    shapes, home = random_product(random)
    chip = ideal_chip(*random.choice([(4, 4), (8, 8), (16, 8)]))
    result = run(product(*shapes, home=home), chip)
    (operation,) = result.summary["operations"]
    by_array = [each for each in operation["transposed"] if each["by"] == "array"]
    assert sum(each["vectors"] for each in by_array) == operation["turned_cycles"]
    assert operation["streamed_vectors"] == operation["streamed_cycles"]  # f32 and bf16: 1 cycle
    for each in operation["transposed"]:
        place = ("lhs", "rhs").index(each["tensor"])
        if not each["layout"]:
            continue
        shape = shapes[place].partition("{")[0] + each["layout"]
        swapped = [shape if n == place else shapes[n] for n in range(3)]
        again = run(product(*swapped, home=home), chip).summary["operations"][0]
        assert each["tensor"] not in {one["tensor"] for one in again["transposed"]}


def test_networks_say_it_of_each_operation() -> None:
    summary = run(CONFIGS / "networks" / "bert_block.toml", values=False).summary
    for operation in summary["operations"]:
        told = sum(each["vectors"] for each in operation["transposed"])
        assert told == operation["turned_cycles"], operation["name"]
    lines = transposed_texts(summary)
    assert any(
        line.startswith("query_sums: x is transposed on the way") and line.endswith("would not be")
        for line in lines
    )
    assert lines[-1].startswith("and ")


def test_a_transpose_is_no_detour_on_its_own_way() -> None:
    builder = GraphBuilder(home="state_buffer")
    x = builder.tensor("x", "f32[8,8]")
    builder.transpose(x, "f32[8,8]", permutation=(1, 0), name="y")
    summary = run(builder.graph(), ideal_chip(4, 4)).summary
    assert all(not each["transposed"] for each in summary.get("operations", ()))


def test_the_screen_and_explain_say_it(tmp_path: Any) -> None:
    file = tmp_path / "tile.toml"
    file.write_text(
        'chip = "ideal_4x4"\n[workload]\nop = "matmul"\nhome = "state_buffer"\n'
        'lhs = "f32[4,4]"\nrhs = "f32[4,4]"\nout = "f32[4,4]"\n'
    )
    said = "lhs is transposed on the way: 4 of 8 vectors; as {0,1} it would not be"
    status, out, _ = run_command("run", file, "--no-plots", "--out", tmp_path / "out")
    words = " ".join(out.split())
    assert status == 0
    assert f"transposed {said}" in words
    assert "lost " in words
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    lost = lost_text(summary["operations"][0])
    assert lost in words
    assert lost.endswith(f"of the array's {summary['cycles']} cycles")
    told = run_command("explain", file, "--no-what-if")[1]
    assert f"  {said}\n" in told
    plain = json.loads(run_command("explain", file, "--no-what-if", "--json")[1])
    assert plain["transposed"] == [
        {"operation": "matmul", "streamed_vectors": 8, "tensor": "lhs", "by": "array",
         "vectors": 4, "layout": "{0,1}"}
    ]  # fmt: skip
