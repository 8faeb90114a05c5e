"""Does docs/neuroncore.md define every metric, and are its figures of products those of a run?"""

from __future__ import annotations

import re

import numpy as np
import pytest

import systolic
from support.documents import ROOT
from systolic.config import load_run
from systolic.run.execute import run
from systolic.shipped import RUNS
from systolic.workload import GraphBuilder

TEXT = (ROOT / "docs" / "neuroncore.md").read_text(encoding="utf-8")


def test_every_metric_is_defined() -> None:
    config = load_run(
        RUNS / "neuroncore_v2_chain.toml", ["chip.metrics=true", "workload.home=dram"]
    )
    found = set(run(config, values=False).summary["metrics"])
    lines = TEXT[TEXT.index("| key of `metrics` |") :].split("\n\n")[0].splitlines()[2:]
    said = [re.match(r"\| `(\w+)` \| .{20}", line) for line in lines]
    names = {each[1] for each in said if each}
    assert len(names) == len(lines)
    engines = ("vector", "scalar", "gpsimd")
    each_engine = {f"{name}_engine_active_time_percent" for name in engines}
    assert names - {"NAME_engine_active_time_percent"} | each_engine == found


def worth_of_tiles() -> list[list[str]]:
    """Return the rows of the table of products whose contraction fills part of the array."""
    lines = TEXT[TEXT.index("| product | tensors |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("row", worth_of_tiles(), ids=lambda row: f"{row[0]} {row[1]}")
def test_what_tiles_would_be_worth(row: list[str]) -> None:
    product, where, *figures = row
    dtype, *sizes = re.findall(r"\w+(?=\[)|(?<=\[)[\d,]+(?=\])", product)
    (count, rows, inner), (_, _, cols) = (map(int, size.split(",")) for size in sizes)
    builder = GraphBuilder("dram" if where == "in DRAM" else "state_buffer")
    lhs = builder.tensor("lhs", f"{dtype}[{count},{rows},{inner}]{{1,2,0}}")
    rhs = builder.tensor("rhs", f"{dtype}[{count},{inner},{cols}]")
    builder.matmul(lhs, rhs, f"{dtype}[{count},{rows},{cols}]", name="out")
    graph = builder.graph()
    given = {
        name: np.ones(graph.shape(name).dims, graph.shape(name).dtype) for name in graph.inputs
    }
    ended = systolic.run(graph, "neuroncore_v3", given)
    shares = [
        ended.summary["metrics"][f"{name}_active_time_percent"]
        for name in ("tensor_engine", "scalar_engine", "dma")
    ]
    told = [f"{ended.cycles:,}", *(f"{share:.1f} %" if share else "0" for share in shares)]
    assert told == figures
