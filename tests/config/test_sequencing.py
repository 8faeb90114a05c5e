"""Are the keys of dispatch, intervals and [fetch] refused in one line, and written back?"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import refused
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
        ("fetch", "buffer_instructions = 0\nbytes_per_cycle = 64",
         "[fetch] buffer_instructions: needs an integer >= 1, found 0"),
        ("fetch", "buffer_instructions = 8\nbytes_per_cycle = 0",
         "[fetch] bytes_per_cycle: needs an integer >= 1, found 0"),
        ("fetch", "buffer_instructions = 8\nbytes_per_cycle = 64\nlatency_cycles = -1",
         "[fetch] latency_cycles: needs an integer >= 0, found -1"),
        ("fetch", "buffer_instructions = 8",
         "[fetch] bytes_per_cycle: is missing; needs an integer >= 1"),
        ("fetch", "buffer_instructions = 8\nbytes_per_cycle = 64\nlatency = 1",
         '[fetch] unknown key "latency" (known: buffer_instructions, bytes_per_cycle, '
         'latency_cycles); perhaps "latency_cycles" was meant'),
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
        ("fetch", "buffer_instructions = 8\nbytes_per_cycle = 64\nlatency_cycles = 3"),
    ],
)
def test_a_chip_prints_back_with_them(table: str, lines: str, tmp_path: Path) -> None:
    chip = load_chip(chip_file(tmp_path, table, lines))
    assert chip != load_chip(CHIP)
    again = tmp_path / "again.toml"
    again.write_text(to_toml(chip), encoding="utf-8")
    assert load_chip(again) == chip


def test_a_chip_without_fetch_prints_back_without_it() -> None:
    assert "fetch" not in to_toml(load_chip(CHIP))


@pytest.mark.parametrize("command", ["lint", "run"])
def test_a_chip_without_room_is_refused_in_one_line(command: str, tmp_path: Path) -> None:
    program = CHIP.parents[1] / "programs" / "transpose.txt"
    path = chip_file(tmp_path, "fetch", "buffer_instructions = 0\nbytes_per_cycle = 64")
    assert refused(command, program, "--chip", path) == (
        f"{path}: [fetch] buffer_instructions: needs an integer >= 1, found 0"
    )


def test_an_override_of_the_table_is_named(tmp_path: Path) -> None:
    run = CHIP.parents[1] / "runs" / "transpose_fig3.toml"
    rate, slots = "chip.fetch.bytes_per_cycle=0", "chip.fetch.buffer_instructions=2"
    assert refused("run", run, "--set", rate, "--set", slots).endswith(
        f"--set {rate}: [fetch] bytes_per_cycle: needs an integer >= 1, found 0"
    )
