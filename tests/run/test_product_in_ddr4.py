"""How near does a product whose tensors live in DDR4 with all its timings come to its bound?"""

from __future__ import annotations

import systolic
from support.documents import ROOT
from systolic.config import load_run


def test_a_product_of_1024_is_within_a_quarter_of_its_bound():
    path = ROOT / "configs" / "runs" / "matmul_1024_dram.toml"
    summary = systolic.run(load_run(path, ["chip=ddr4_2400_128x128"]), values=False).summary
    cycles, bound = summary["cycles"], summary["bound"]["cycles"]
    assert bound < cycles < 1.25 * bound
    page = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    assert f"takes {cycles:,} cycles; its bound is {bound:,}" in " ".join(page.split())
