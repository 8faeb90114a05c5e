"""Does it run? Every notebook, from top to bottom, as a user would run it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS][:1] == ["01_wavefront"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # the kernel's own, in another process's start-up
def test_notebook(path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "sim"))
    book = nbformat.read(path, as_version=4)
    stored = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert not stored, "notebooks are kept without outputs"
    NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown)
