"""Does `--set` reach every key, with the value that was meant?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from systolic.config import load_run
from systolic.config.override import Override, apply, toml_value

FIG3 = Path(__file__).resolve().parents[2] / "configs" / "runs" / "transpose_fig3.toml"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5), ("true", True), ("[1, 2]", [1, 2]), ('"5"', "5"), ("row", "row"), ("", ""),
        ("f32[4,4]", "f32[4,4]"), ("a = 1", "a = 1"), ("1\nb = 2", "1\nb = 2"), ("0x10", 16),
        ("[" * 5000, "[" * 5000), ("{ a = 1 }", {"a": 1}),
    ],
)  # fmt: skip
def test_value_is_toml_or_else_text(text: str, value: Any) -> None:
    assert toml_value(text) == value


def test_run_keys() -> None:
    run = load_run(FIG3, ["workload.shape=s8[3,4]", "compile.drain=row", "engine=register"])
    assert str(run.graph.shape("source")) == "s8[3,4]{1,0}"
    assert (run.compile.drain, run.engine) == ("row", "register")


def test_chip_keys() -> None:
    run = load_run(FIG3, ["chip.pe_array.rows=5", "chip.pe_array.cycles_per_vector.f32=4"])
    assert run.chip.pe_array.rows == 5
    assert run.chip.pe_array.cycles_per_vector["f32"] == 4
    assert run.chip.pe_array.cols == 4


def test_missing_tables_are_made() -> None:
    assert apply({"a": 1}, [Override.parse("b.c.d=2")]) == {"a": 1, "b": {"c": {"d": 2}}}


def test_apply_leaves_its_argument_alone() -> None:
    tables = {"a": {"b": 1}}
    assert apply(tables, [Override.parse("a.b=2")]) == {"a": {"b": 2}}
    assert tables == {"a": {"b": 1}}


def test_later_overrides_win() -> None:
    assert load_run(FIG3, ["compile.drain=row", "compile.drain=partition"]).compile.drain == (
        "partition"
    )


def test_another_chip_by_name_in_any_order() -> None:
    for order in ([0, 1], [1, 0]):
        texts = ["chip=ideal_128x128", "chip.pe_array.rows=64"]
        run = load_run(FIG3, [texts[i] for i in order])
        assert (run.chip.name, run.chip.pe_array.rows) == ("ideal-128x128", 64)


def test_paths_on_the_command_line_are_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chip = (FIG3.parents[1] / "chips" / "ideal_4x4.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(chip.replace("ideal-4x4", "mine"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run = load_run(FIG3, ["chip=mine.toml", "workload.data=x.npy"])
    assert run.chip.name == "mine"
    assert run.sources["source"].path == Path("x.npy")


def test_paths_in_a_run_file_are_from_its_folder() -> None:
    digits = load_run(FIG3.with_name("transpose_digits.toml"))
    assert digits.sources["source"].path.resolve() == FIG3.parents[1] / "data" / "digits.csv"
