"""docs/extending.md, "An export": a toy format, added by its row."""

from __future__ import annotations

from collections.abc import Iterator

from support.command_line import refused, run_command
from systolic.shipped import CONFIGS
from systolic.trace.exports.observed import Observed
from systolic.trace.exports.table import FORMATS, as_text

FIG_3 = CONFIGS / "runs" / "transpose_fig3.toml"


def starts(observed: Observed) -> Iterator[str]:
    """Yield a line for each instruction: its name and the cycle of its start."""
    for times in observed.trace.times:
        yield f"{observed.names[times.instruction]} {times.start}\n"


def test_a_format_is_a_row(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "starts", as_text(starts))
    file = tmp_path / "starts.txt"
    assert run_command("export", "starts", FIG_3, "--out", file)[0] == 0
    assert file.read_text() == "LoadWeights 0\nMatMul 4\nCopy 14\n"
    assert refused("export", "start", FIG_3, "--out", file) == (
        'FORMAT: there is no "start" (known: perfetto, vcd, parquet, starts); '
        'perhaps "starts" was meant'
    )


def test_a_format_that_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    def failing(observed: Observed) -> Iterator[str]:
        yield "half"
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(FORMATS, "failing", as_text(failing))
    file = tmp_path / "file.txt"
    assert refused("export", "failing", FIG_3, "--out", file) == (
        f"{file}: cannot be written (No space left on device)"
    )
    assert list(tmp_path.iterdir()) == []
