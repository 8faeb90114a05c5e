"""Does docs/neuroncore.md define every figure that a chip with `metrics` puts into the summary?"""

from __future__ import annotations

import re

from support.documents import ROOT
from systolic.config import load_run
from systolic.run.execute import run
from systolic.shipped import RUNS

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
