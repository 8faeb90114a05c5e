"""Are the keys of passes and of the array's limits checked, in one line that names the key?"""

from __future__ import annotations

from pathlib import Path

import pytest

import systolic
from systolic.config import load_chip, load_run, to_toml
from systolic.errors import ConfigError
from systolic.shipped import CHIPS, CONFIGS

CHIP = (CHIPS / "ideal_4x4.toml").read_text(encoding="utf-8")


def chip_with(tmp_path: Path, table: str, key: str) -> Path:
    path = tmp_path / "chip.toml"
    path.write_text(CHIP.replace(f"[{table}]\n", f"[{table}]\n{key}\n"), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("table", "key", "text"),
    [
        ("pe_array", "passes = { f23 = 2 }",
         '[pe_array] passes: "f23" is no type of cycles_per_vector '
         "(f32, bf16, f16, f8e4m3fn, f8e5m2, s8, u8)"),
        ("pe_array", "passes = { f32 = 0 }",
         "[pe_array.passes] f32: needs an integer >= 1, found 0"),
        ("pe_array", "pass_through = { f23 = 2 }",
         '[pe_array] pass_through: "f23" is no type of cycles_per_vector '
         "(f32, bf16, f16, f8e4m3fn, f8e5m2, s8, u8)"),
        ("pe_array", "pass_through = { f32 = 0 }",
         "[pe_array.pass_through] f32: needs an integer >= 1, found 0"),
        ("pe_array", "warm_up_cycles = -1",
         "[pe_array] warm_up_cycles: needs an integer >= 0, found -1"),
        ("pe_array", "warm_up_factor = 0",
         "[pe_array] warm_up_factor: needs an integer >= 1, found 0"),
        ("pe_array", "min_vectors = -1", "[pe_array] min_vectors: needs an integer >= 0, found -1"),
        ("pe_array", "moving_max = 3",
         "[pe_array] moving_max (3) is less than rows (4): an identity product of a whole block "
         "must fit"),
        ("result_buffer", "groups_per_bank = 0",
         "[result_buffer] groups_per_bank: needs an integer >= 1, found 0"),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, table: str, key: str, text: str) -> None:
    path = chip_with(tmp_path, table, key)
    with pytest.raises(ConfigError) as caught:
        load_chip(path)
    assert str(caught.value).startswith(f"{path}: {text}"), str(caught.value)


def test_they_print_back(tmp_path: Path) -> None:
    keys = "passes = { f32 = 2 }\npass_through = { f32 = 2 }\nwarm_up_cycles = 9\n"
    keys += "min_vectors = 3\nmoving_max = 7"
    chip = load_chip(chip_with(tmp_path, "pe_array", keys))
    (tmp_path / "again.toml").write_text(to_toml(chip), encoding="utf-8")
    assert load_chip(tmp_path / "again.toml") == chip


def test_a_summary_counts_the_passes_of_all_multiplies() -> None:
    """The transpose of figure 3 is one multiply, here in three passes."""
    fig3 = CONFIGS / "runs" / "transpose_fig3.toml"
    plain = systolic.run(load_run(fig3)).summary
    summary = systolic.run(load_run(fig3, ["chip.pe_array.passes={f32=3}"])).summary
    assert "array_multiplies" not in plain
    assert (summary["instructions"]["MatMul"], summary["array_multiplies"]) == (1, 3)
    assert summary["cycles"] == plain["cycles"] + 2 * 4
