"""Does a random compiled graph run from its program file as from its run file?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from compiler.test_graph_values import random_chip, random_graph
from support.axes import axes_of
from support.command_line import run_command
from systolic.config import to_toml
from systolic.isa import load_module
from systolic.workload import Graph


def run_file(graph: Graph, seed: int) -> str:
    """Return the text of a run file for a graph; random data from that seed."""
    lines = ['chip = "./chip.toml"', "[workload]", 'data = "random"', f"seed = {seed}"]
    lines.append(f'home = "{graph.tensor(graph.outputs[0]).home}"')
    for name in graph.inputs:
        tensor = graph.tensor(name)
        lines += [
            f"[workload.tensors.{name}]",
            f'shape = "{tensor.shape}"',
            f'home = "{tensor.home}"',
        ]
    for op in graph.operations:
        lines += ["[[workload.ops]]", f'op = "{op.kind}"', f'name = "{op.output}"']
        lines += [f"inputs = {json.dumps(list(op.inputs))}", f'out = "{graph.shape(op.output)}"']
        if op.kind == "transpose":
            lines.append(f"permutation = {list(axes_of(op))}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "seeds",
    [
        range(3),
        (24,),  # reads padding of tiles on the chip
        pytest.param(range(3, 120), marks=pytest.mark.slow),
    ],
)
def test_a_program_file_gives_what_its_run_file_gives(
    seeds: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for seed in seeds:
        rng = Random(seed)
        Path("chip.toml").write_text(to_toml(random_chip(rng)), encoding="utf-8")
        graph = random_graph(rng)
        Path("r.toml").write_text(run_file(graph, seed), encoding="utf-8")
        identity = ("--set", f"compile.identity={rng.choice(['stored', 'built'])}")
        status, out, err = run_command(
            "run", "r.toml", *identity, "--json", "--no-plots", "--out", "a"
        )
        if status:
            assert "no room" in err, (seed, err)
            continue
        ran += 1
        form = rng.choice(["txt", "bin"])
        made = run_command(
            "compile", "r.toml", *identity, "--program", f"p.{form}", "--inputs", f"in{seed}"
        )
        assert made[0] == 0, (seed, made)
        for binding in load_module(f"p.{form}").inputs:
            if binding.name in graph.inputs:  # at cycle 0 a tensor is at home, and nowhere else
                home = {graph.tensor(binding.name).home}
                assert {access.buffer.value for access in binding.accesses} == home, seed
        status, again, err = run_command(
            "run", f"p.{form}", "--input", f"in{seed}", "--json", "--no-plots", "--out", f"b{seed}"
        )
        assert status == 0, (seed, err)
        wanted, found = json.loads(out), json.loads(again)
        for key in ("cycles", "units", "ports", "stalls", "instructions"):
            assert found[key] == wanted[key], (seed, key)
        results = sorted(np.load(path).tobytes() for path in Path(f"b{seed}").glob("*.npy"))
        assert results == sorted(np.load(path).tobytes() for path in Path("a").glob("*.npy")), seed
    assert ran > len(seeds) / 2
