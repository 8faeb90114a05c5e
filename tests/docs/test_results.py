"""Are the pages of docs/results what their runs give today, and README's figures theirs?

`make results` writes both. The pages whose runs take long are held in the slow tier.
"""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest

from support.documents import ROOT

RESULTS = ROOT / "docs" / "results"
SCRIPT: Any = runpy.run_path(str(RESULTS / "results.py"), run_name="results")
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK = {"products", "layouts"}
MOST_WORDS = 900


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in SCRIPT["PAGES"]
    ],
)
def test_a_page_is_what_its_runs_give(name: str) -> None:
    page = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert SCRIPT["PAGES"][name]() == page, "make results writes it again"


def test_every_page_is_made_by_the_script_and_named() -> None:
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"README"}
    assert pages == set(SCRIPT["PAGES"])
    named = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert all(f"[{name}.md]({name}.md)" in named for name in pages)


def test_a_page_names_the_command_of_its_rows() -> None:
    for name in SCRIPT["PAGES"]:
        text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
        assert re.search(r"`systolic (run|validate)", text), name


def test_the_figures_of_the_readme_are_those_of_the_pages() -> None:
    assert SCRIPT["with_figures"](README) == README, "make results writes them again"
    assert README.count("(docs/results/") >= 4


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= MOST_WORDS
