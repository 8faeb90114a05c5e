"""Does the key of a point change with all that its results depend on, and with nothing else?"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.sweeps import sweep, sweep_file
from systolic.sweep import key as keys
from systolic.sweep.space import load_sweep

CHIP = """\
name = "c"
[clock]
core = 1000
[state_buffer]
partitions = 4
bytes_per_partition = 4096
[pe_array]
rows = 4
cols = 4
cycles_per_vector = { f32 = 1 }
[result_buffer]
banks = 2
bank_bytes = 2048
[dma]
bytes_per_cycle = 4
[dram]
size_bytes = 100000
bytes_per_cycle = 8
"""
TEXT = sweep("", '"chip.dram.latency_cycles" = [0]').replace("ideal_4x4", "./c.toml")


def key_of(folder: Path, text: str = TEXT, chip: str = CHIP, *, values: bool = True) -> str:
    (folder / "c.toml").write_text(chip, encoding="utf-8")
    file = load_sweep(sweep_file(folder, text), [], values=values)
    space = file.spaces[0]
    return file.resolved(space.point(0), space).key


OTHERS = {
    "chip": {"chip": CHIP.replace("banks = 2", "banks = 4")},
    "clock": {"chip": CHIP.replace("core = 1000", "core = 1200")},
    "shape": {"text": TEXT.replace("f32[8,8]", "f32[8,4]")},
    "home": {"text": TEXT.replace('home = "dram"\n', "")},
    "data": {"text": TEXT.replace('home = "dram"\n', 'home = "dram"\ndata = "random"\n')},
    "compile": {"text": TEXT.replace("[[sweep]]", '[compile]\ndrain = "row"\n[[sweep]]')},
    "engine": {"text": f'engine = "register"\n{TEXT}'},
    "varied": {"text": TEXT.replace('latency_cycles" = [0]', 'latency_cycles" = [1]')},
    "values": {"values": False},
    "program": {"text": TEXT.replace('name = "s"', 'name = "s"\nprogram = "once"')},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_what_changes_the_key(change: dict[str, object], tmp_path: Path) -> None:
    before = key_of(tmp_path)
    assert len(before) == 64
    assert key_of(tmp_path, **change) != before  # type: ignore[arg-type]


SAME = {
    "names": {"text": TEXT.replace('name = "s"', 'name = "t"\ndescription = "d"')},
    "chip's words": {"chip": CHIP.replace('name = "c"', 'name = "other"\ndescription = "d"')},
    "spelled defaults": {
        "text": TEXT.replace("[[sweep]]", '[compile]\ndrain = "block"\n[[sweep]]')
    },
    "set by a sweep": {"chip": CHIP.replace("bytes_per_cycle = 8", "bytes_per_cycle = 8 # same")},
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_does_not(change: dict[str, str], tmp_path: Path) -> None:
    assert key_of(tmp_path, **change) == key_of(tmp_path)  # type: ignore[arg-type]


def test_the_same_files_elsewhere_have_the_same_key(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert key_of(tmp_path / "a") == key_of(tmp_path / "b")


def test_the_contents_of_data_files_count_if_they_are_read(tmp_path: Path) -> None:
    text = TEXT.replace('home = "dram"\n', 'data = "d.csv"\n').replace("f32[8,8]", "f32[2,2]")
    (tmp_path / "d.csv").write_text("1,2\n3,4\n")
    before = key_of(tmp_path, text), key_of(tmp_path, text, values=False)
    (tmp_path / "d.csv").write_text("1,2\n3,5\n")
    after = key_of(tmp_path, text), key_of(tmp_path, text, values=False)
    assert (before[0] == after[0], before[1] == after[1]) == (False, True)


def test_the_version_of_the_timing_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of(tmp_path)
    monkeypatch.setattr(keys, "TIMING_VERSION", keys.TIMING_VERSION + 1)
    assert key_of(tmp_path) != before


def test_every_point_has_a_key_of_its_own(tmp_path: Path) -> None:
    vary = '"chip.dram.latency_cycles" = [0, 1, 2]\n"workload.shape" = ["f32[4,4]", "f32[8,4]"]'
    file = load_sweep(sweep_file(tmp_path, sweep("", vary)), [], values=False)
    space = file.spaces[0]
    found = {file.resolved(space.point(n), space).key for n in range(space.size)}
    assert len(found) == 6
