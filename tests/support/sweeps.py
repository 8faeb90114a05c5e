"""Small sweep files for tests."""

from __future__ import annotations

from pathlib import Path

HEAD = """\
chip = "ideal_4x4"
[workload]
op = "transpose"
shape = "f32[8,8]"
home = "dram"
"""
LATENCIES = (
    HEAD
    + """\
[[sweep]]
name = "s"
[sweep.vary]
"chip.dram.latency_cycles" = [0, 10, 20]
"workload.shape" = ["f32[4,4]", "f32[8,8]"]
"""
)


def sweep_file(folder: Path, text: str, name: str = "s.toml") -> Path:
    """Write a sweep file and return its path."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def sweep(more: str, vary: str) -> str:
    """Return the text of a file with one sweep; more: lines of its table. vary: lines of vary."""
    return f'{HEAD}[[sweep]]\nname = "s"\n{more}\n[sweep.vary]\n{vary}\n'
