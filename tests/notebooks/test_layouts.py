"""Does the notebook run from top to bottom?"""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "02_layouts.ipynb"


def cells() -> list[str]:
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [c["source"] for c in content["cells"] if c["cell_type"] == "code"]
    # Lines for IPython only, such as where pictures go, are no Python.
    return ["".join(line for line in "".join(c).splitlines(True) if line[0] != "%") for c in code]


def test_cells_run_in_one_namespace() -> None:
    namespace: dict[str, object] = {}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for number, cell in enumerate(cells()):
            exec(compile(cell, f"cell {number}", "exec"), namespace)
    assert "element (2,3) is at 17\nat 17 is (2, 3)\nat 9 is None" in shown.getvalue()
    assert "has 24 blocks; equation 1: 24" in shown.getvalue()
    assert "[[  0  16   1  17   2  18" in shown.getvalue()  # rows 0 and 1 share a partition
    assert "[[  0   1  16  17  32  33" in shown.getvalue()  # so do they when transposed


@pytest.mark.slow
def test_runs_as_a_notebook() -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    book = nbformat.read(NOTEBOOK, as_version=4)
    root = str(NOTEBOOK.parents[1])
    old = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = root
    try:
        client.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    finally:
        os.environ.pop("PYTHONPATH")
        if old is not None:
            os.environ["PYTHONPATH"] = old
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
