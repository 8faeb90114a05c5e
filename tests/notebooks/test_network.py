"""Does the notebook of a network say what its run does?"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03_network.ipynb"


def test_cells_run_in_one_namespace() -> None:
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = ["".join(c["source"]) for c in content["cells"] if c["cell_type"] == "code"]
    namespace: dict[str, object] = {}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for number, cell in enumerate(code):
            exec(compile(cell, f"cell {number}", "exec"), namespace)
    said = shown.getvalue()
    assert "97.21 % of the images held out are right" in said
    assert "bit for bit: True" in said
    assert "hidden        0 cycles" in said
    assert "(4, 4, 4, 16) True" in said
    pictures = namespace["pictures"]
    assert isinstance(pictures, Path)
    assert len(list(pictures.glob("*.png"))) == 3
