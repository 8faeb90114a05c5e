"""Do the documents' examples run, and do their tables name every key that there is?"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import systolic
from support.documents import PAGES
from systolic.config import expand, load_run
from systolic.config.compile_table import ProductTable
from systolic.config.run_file import (
    AccuracyTable,
    CompileTable,
    OperationTable,
    RunFile,
    SweepTable,
    TensorTable,
    WorkloadTable,
)
from systolic.run.result import Result

ROOT = Path(__file__).resolve().parents[2]
RUN_FILES = (ROOT / "docs" / "run_files.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_python_example_of_the_compiler_runs(monkeypatch):
    """Ones times ones: every element of the product is K = 512."""
    monkeypatch.chdir(ROOT)
    (code,) = blocks((ROOT / "docs" / "compiler.md").read_text(encoding="utf-8"), "python")
    names: dict[str, object] = {}
    exec(compile(code, "docs/compiler.md", "exec"), names)
    result = names["result"]
    assert isinstance(result, Result)
    found = result.outputs["y"]
    assert found.shape == (256, 384)
    assert (found == 512).all()
    assert result.cycles > 0


def test_the_python_example_of_the_readme_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (code,) = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "python")
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert capsys.readouterr().out.startswith("[[32. 32.")
    assert (names["result"].outputs["y"] == 32).all()


def test_the_run_file_example_runs(tmp_path):
    text, *_ = blocks(RUN_FILES, "toml")
    path = tmp_path / "example.toml"
    path.write_text(text, encoding="utf-8")
    result = systolic.run(load_run(path))
    assert result.summary["values"]["equal"] is True
    assert [op["name"] for op in result.summary["operations"]] == ["scores", "out"]


def test_the_example_of_choices_for_one_product_goes_with_the_first(tmp_path):
    text, *_ = blocks(RUN_FILES, "toml")
    choices = next(text for text in blocks(RUN_FILES, "text") if text.startswith("[compile.op"))
    path = tmp_path / "example.toml"
    path.write_text(text + choices, encoding="utf-8")
    result = systolic.run(load_run(path), values=False)
    loops = {result.compiled.layers.nodes[n].layer: each for n, each in result.compiled.tiled.loops}
    assert loops["scores"].group == (1, 1)
    assert loops["out"].outer == "moving"


def test_the_example_of_tables_in_place_of_shapes_runs(tmp_path):
    path = tmp_path / "example.toml"
    _, text, *_ = blocks(RUN_FILES, "toml")
    path.write_text(text, encoding="utf-8")
    result = systolic.run(load_run(path))
    assert result.summary["values"]["equal"] is True
    place = {"layout": "f32[2,3]{1,0:T(2,3)}", "partition": 0, "byte": 1024}
    assert result.summary["on_chip"] == {"out": place}


def test_the_sweep_example_has_the_points_it_says(tmp_path):
    path = tmp_path / "example.toml"
    *_, text = blocks(RUN_FILES, "toml")
    path.write_text(text, encoding="utf-8")
    points = list(expand(load_run(path)))
    assert len(points) == 6
    assert [point.config.chip.pe_array.rows for point in points] == [32, 32, 64, 64, 128, 128]
    assert [point.config.chip.pe_array.cols for point in points] == [32, 32, 64, 64, 128, 128]


SECTIONS = {
    "## Top level": RunFile,
    "## [workload]\n": WorkloadTable,
    "## [workload.tensors.NAME]": TensorTable,
    "## [workload.accuracy]": AccuracyTable,
    "## [[workload.ops]]": OperationTable,
    "## [compile]": CompileTable,
    "## [compile.operations.NAME]": ProductTable,
    "## [[sweep]]": SweepTable,
}


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_is_documented(section):
    text = RUN_FILES.split(section, 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    documented = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert documented == set(SECTIONS[section].model_fields)


NAMES = sorted(
    {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"`((?:systolic\.)[\w.]+\w)`", page.read_text(encoding="utf-8"))
    }
)
FILES = sorted(
    {
        (page.name, name)
        for page in PAGES
        for name in re.findall(
            r"`((?:sim|tests|configs|docs|benchmarks|notebooks)/[\w./]*)`",
            page.read_text(encoding="utf-8"),
        )
    }
)


@pytest.mark.parametrize(("page", "name"), NAMES)
def test_a_module_or_name_that_is_mentioned_exists(page: str, name: str) -> None:
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return
    raise AssertionError(name)


@pytest.mark.parametrize(("page", "name"), FILES)
def test_a_file_that_is_mentioned_exists(page: str, name: str) -> None:
    assert any((place / name).exists() for place in (ROOT, ROOT / "tests"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links to files, and their anchors to headings."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        assert path.exists(), target
        if anchor:
            lines = path.read_text(encoding="utf-8").splitlines()
            heads = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
            anchors = [re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in heads]
            assert anchor in anchors, target
