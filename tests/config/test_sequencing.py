"""Are the keys of dispatch, intervals and [fetch] refused in one line, and written back?"""

from __future__ import annotations

from pathlib import Path

import pytest

from systolic.config import load_chip, to_toml
from systolic.errors import ConfigError

CHIP = Path(__file__).resolve().parents[2] / "configs" / "chips" / "ideal_4x4.toml"
TEXT = CHIP.read_text(encoding="utf-8")


def chip_file(folder: Path, table: str, lines: str) -> Path:
    """Return a chip file with more lines at the head of a table, which is made if need be."""
    path, head = folder / "chip.toml", f"[{table}]\n"
    text = TEXT if head in TEXT else TEXT + head
    path.write_text(text.replace(head, f"{head}{lines}\n", 1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("table", "lines", "text"),
    [
        ("dma", 'dispatch = "late"',
         '[dma] dispatch: needs one of "overlapped", "serial", found "late"'),
        ("activation", "dispatch_cycles = -1",
         "[activation] dispatch_cycles: needs an integer >= 0, found -1"),
        ("pe_array", "min_interval_cycles = -1",
         "[pe_array] min_interval_cycles: needs an integer >= 0, found -1"),
    ],
)  # fmt: skip
def test_fault(table: str, lines: str, text: str, tmp_path: Path) -> None:
    path = chip_file(tmp_path, table, lines)
    with pytest.raises(ConfigError) as caught:
        load_chip(path)
    assert str(caught.value) == f"{path}: {text}"


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        ("dma", 'dispatch = "serial"\ndispatch_cycles = 3'),
        ("pe_array", "min_interval_cycles = 64"),
    ],
)
def test_a_chip_prints_back_with_them(table: str, lines: str, tmp_path: Path) -> None:
    chip = load_chip(chip_file(tmp_path, table, lines))
    assert chip != load_chip(CHIP)
    again = tmp_path / "again.toml"
    again.write_text(to_toml(chip), encoding="utf-8")
    assert load_chip(again) == chip
