"""The recipe "A chip" of docs/extending.md: a file of one's own, found by name or by path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import refused, run_command
from systolic.config import load_chip

SHIPPED = Path(__file__).resolve().parents[2] / "configs" / "chips" / "ideal_4x4.toml"
RUN = '[workload]\nop = "transpose"\nshape = "f32[6,5]"\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to an empty folder with a toy chip: the shipped 4 x 4 with an array of 3 x 2."""
    monkeypatch.chdir(tmp_path)
    text = SHIPPED.read_text(encoding="utf-8").replace("rows = 4", "rows = 3")
    text = text.replace("cols = 4", "cols = 2").replace('name = "ideal-4x4"', 'name = "toy-3x2"')
    (tmp_path / "toy.toml").write_text(text, encoding="utf-8")
    return tmp_path


def summary_of(chip: str, *options: str) -> dict[str, Any]:
    Path("r.toml").write_text(f'chip = "{chip}"\n{RUN}', encoding="utf-8")
    status, out, err = run_command("run", "r.toml", "--no-plots", "--json", *options)
    assert (status, err) == (0, "")
    summary: dict[str, Any] = json.loads(out)
    return summary


def test_both_engines_run_it() -> None:
    chip = load_chip("toy.toml")
    assert (chip.name, chip.pe_array.rows, chip.pe_array.cols) == ("toy-3x2", 3, 2)
    event, register = (summary_of("toy", "--engine", engine) for engine in ("event", "register"))
    for summary in (event, register):
        assert summary["values"]["equal"] is True
        assert summary["config"]["chip"]["name"] == "toy-3x2"
    assert event["cycles"] == register["cycles"]


def test_it_is_found_by_name_by_path_and_by_option(folder: Path) -> None:
    names = ("toy", "./toy.toml", str(folder / "toy.toml"))
    cycles = {summary_of(chip)["cycles"] for chip in names}
    cycles.add(summary_of("ideal_4x4", "--chip", "toy.toml")["cycles"])
    (folder / "chips").mkdir()
    (folder / "runs").mkdir()
    (folder / "toy.toml").rename(folder / "chips" / "toy.toml")
    Path("runs/r.toml").write_text(f'chip = "toy"\n{RUN}', encoding="utf-8")
    status, out, _ = run_command("run", "runs/r.toml", "--no-plots", "--json")
    assert status == 0
    assert cycles == {json.loads(out)["cycles"]}
    assert summary_of("ideal_4x4")["cycles"] not in cycles


def test_the_schema_has_every_table_of_it() -> None:
    status, out, _ = run_command("schema", "chip")
    assert status == 0
    one_core, several_cores = (each["properties"] for each in json.loads(out)["anyOf"])
    assert load_chip("toy.toml").model_dump().keys() <= one_core.keys()
    assert "cores" in several_cores


def test_a_mistake_names_file_table_and_key() -> None:
    text = Path("toy.toml").read_text(encoding="utf-8").replace("rows = 3", "rws = 3")
    Path("toy.toml").write_text(text, encoding="utf-8")
    Path("r.toml").write_text(f'chip = "toy"\n{RUN}', encoding="utf-8")
    found = refused("run", "r.toml")
    assert 'toy.toml: [pe_array] unknown key "rws"' in found
    assert 'perhaps "rows" was meant' in found
