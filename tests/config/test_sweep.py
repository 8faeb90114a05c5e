"""Does a sweep give the points it says, each the run of the file with those values?"""

from __future__ import annotations

from pathlib import Path

from systolic.config import expand, load_run

RUNS = Path(__file__).resolve().parents[2] / "configs" / "runs"
TEXT = """\
chip = "ideal_4x4"
[workload]
op = "transpose"
shape = "f32[4,4]"
[[sweep]]
name = "one"
vary = { "workload.shape" = ["f32[2,3]", "s8[4,4]"], "compile.via" = ["pe", "dram"] }
[[sweep]]
name = "two"
vary = { "chip.dram.latency_cycles" = [0, 7], "chip" = ["patent_128x64"] }
"""


def test_points_in_order(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TEXT, encoding="utf-8")
    points = list(expand(load_run(tmp_path / "s.toml", ["compile.drain=row"])))
    assert [point.name for point in points] == [
        "one: shape=f32[2,3] via=pe",
        "one: shape=f32[2,3] via=dram",
        "one: shape=s8[4,4] via=pe",
        "one: shape=s8[4,4] via=dram",
        "two: latency_cycles=0 chip=patent_128x64",
        "two: latency_cycles=7 chip=patent_128x64",
    ]
    assert [point.config.graph.shape("source").dims for point in points[:3]] == [
        (2, 3),
        (2, 3),
        (4, 4),
    ]
    assert [point.config.compile.via for point in points[:4]] == ["pe", "dram", "pe", "dram"]
    assert all(point.config.compile.drain == "row" for point in points)
    assert [point.config.chip.dram.latency_cycles for point in points[4:]] == [0, 7]
    assert points[5].config.chip.name == "patent-128x64"
    assert points[0].varied == {"workload.shape": "f32[2,3]", "compile.via": "pe"}


def test_a_run_without_sweep_has_no_points() -> None:
    assert list(expand(load_run(RUNS / "transpose_fig3.toml"))) == []


def test_a_sweep_can_be_switched_off() -> None:
    run = load_run(RUNS / "transpose_vs_dram.toml", ["sweep=[]"])
    assert run.sweep == ()
