"""Is an impossible [dram.organisation] refused in one line, and a possible one written back?"""

from __future__ import annotations

from pathlib import Path

import pytest

from systolic.config import load_chip, to_toml
from systolic.errors import ConfigError

CHIPS = Path(__file__).resolve().parents[2] / "configs" / "chips"
CHIP = (CHIPS / "ddr4_128x128.toml").read_text(encoding="utf-8")
PLACE = "[dram.organisation]"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("channels = 4", "channels = 3",
         "[dram] bytes_per_cycle (64) must be a multiple of organisation.channels (3): each has an "
         "equal part"),
        ("channels = 4", "channels = 0", f"{PLACE} channels: needs an integer >= 1, found 0"),
        ("channels = 4", "channels = 257", f"{PLACE} channels: needs an integer <= 256, found 257"),
        ("banks = 16 ", "banks = 17 ",
         "[dram] size_bytes (34359738368) must be a multiple of channels x banks x row_bytes "
         "(557056): every bank has equally many rows"),
        ("row_bytes = 8192", "row_bytes = 8193",
         "[dram] organisation: row_bytes (8193) must be a multiple of burst_bytes (64)"),
        ("interleave_bytes = 256", "interleave_bytes = 32",
         "[dram] organisation: interleave_bytes (32) must be a multiple of burst_bytes (64)"),
        ("queues = 4", 'queues = 4\ndescriptor_cost = "max"',
         'dma.descriptor_cost = "max" is for DRAM without an organisation: bursts are asked for '
         "when their descriptor has been fetched"),
        ("burst_bytes = 64", "", f"{PLACE} burst_bytes: is missing; needs an integer >= 1"),
        ("precharge_cycles = 17", "precharge = 17",
         f'{PLACE} unknown key "precharge" (known: activate_cycles, banks, burst_bytes, channels, '
         'interleave_bytes, precharge_cycles, row_bytes); perhaps "precharge_cycles" was meant '
         "(also missing: [dram.organisation] precharge_cycles)"),
        ("activate_cycles = 17", "activate_cycles = -1",
         f"{PLACE} activate_cycles: needs an integer >= 0, found -1"),
    ],
)  # fmt: skip
def test_fault(old: str, new: str, text: str, tmp_path: Path) -> None:
    assert old in CHIP
    path = tmp_path / "chip.toml"
    path.write_text(CHIP.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_chip(path)
    assert str(caught.value) == f"{path}: {text}"


def test_a_chip_prints_back_with_and_without_it(tmp_path: Path) -> None:
    for name in ("ddr4_128x128", "ideal_4x4"):
        chip = load_chip(CHIPS / f"{name}.toml")
        path = tmp_path / f"{name}.toml"
        path.write_text(to_toml(chip), encoding="utf-8")
        assert load_chip(path) == chip
        assert ("organisation" in to_toml(chip)) == (name == "ddr4_128x128")
