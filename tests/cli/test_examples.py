"""Does what comes with systolic run by its name, from any folder?"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import systolic
from support.command_line import refused, run_command
from support.documents import ROOT
from systolic.examples import KINDS, WORK, examples
from systolic.run.execute import run


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shipped() -> dict[str, Path]:
    found = [*ROOT.glob("configs/*/*.toml"), *ROOT.glob("configs/programs/*.txt")]
    return {p.stem: p for p in found if p.parent.name in ("runs", "networks", "programs", "chips")}


def test_every_shipped_file_has_a_name_of_its_own() -> None:
    named = [(name, path.resolve()) for kind in KINDS for name, path in examples(kind).items()]
    assert dict(named) == shipped()
    assert len(named) == len(shipped())


def test_the_list_has_each_name_and_what_it_is() -> None:
    status, out, _ = run_command("examples")
    assert status == 0
    rows = {line.split()[0]: line.split(maxsplit=1)[1:] for line in out.splitlines() if line}
    for name in shipped():
        assert rows[name], name


@pytest.mark.parametrize("name", ["transpose_fig3", "layer"])
def test_a_file_is_printed_as_it_is(name: str) -> None:
    assert run_command("examples", name) == (0, shipped()[name].read_text(encoding="utf-8"), "")


def test_names_stand_for_files() -> None:
    assert run_command("run", "transpose_fig3", "--no-plots")[0] == 0
    assert Path("out/transpose_fig3/summary.json").exists()
    for words in (
        ("run", "transpose", "--values", "none"), ("trace", "transpose_fig3"),
        ("explain", "transpose_fig3"),
        ("compile", "transpose_fig3"), ("at", "transpose_fig3", "--cycle", "3"), ("lint", "layer"),
        ("plot", "timeline", "transpose_fig3", "--out", "t.png"), ("check", "transpose_fig3"),
        ("export", "vcd", "transpose_fig3", "--out", "t.vcd"), ("chip", "show", "ideal_4x4"),
        ("watch", "transpose_fig3", "--word", "result_buffer:0:0"),
    ):  # fmt: skip
        status, _, err = run_command(*words)
        assert status == 0, (words, err)
    assert run_command("diff", "transpose_fig4", "transpose_fig4_rows")[0] == 1
    assert systolic.run("transpose_fig3").cycles == systolic.run(shipped()["transpose_fig3"]).cycles


def test_a_file_of_the_user_comes_first() -> None:
    Path("layer").write_text("no program", encoding="utf-8")
    assert "layer:1:1: " in refused("lint", "layer")


def test_nearly_a_name() -> None:
    assert refused("run", "transpose_fg3") == (
        'transpose_fg3: no such file, and no example; perhaps "transpose_fig3" was meant'
    )
    assert refused("examples", "lyer") == (
        'examples: there is no "lyer"; perhaps "layer" was meant (without a name they are listed)'
    )
    assert refused("run", "something") == "something: no such file"
    assert len(WORK) == 3


def test_the_package_shows_its_names_and_the_signature_of_run() -> None:
    assert dir(systolic) == ["Result", "__version__", "from_jax", "from_torch", "plot", "run"]
    assert inspect.signature(systolic.run) == inspect.signature(run)
    assert {"work", "chip", "inputs", "engine"} <= {*inspect.signature(systolic.run).parameters}
