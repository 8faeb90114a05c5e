"""Does the notebook of collectives say what its runs do?"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "05_collectives.ipynb"


def test_cells_run_in_one_namespace() -> None:
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = ["".join(c["source"]) for c in content["cells"] if c["cell_type"] == "code"]
    namespace: dict[str, object] = {}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for number, cell in enumerate(code):
            plain = "".join(line for line in cell.splitlines(True) if line[0] != "%")
            exec(compile(plain, f"cell {number}", "exec"), namespace)
    assert "True\n11870 11870\n" in shown.getvalue()
    pictures = namespace["pictures"]
    assert isinstance(pictures, Path)
    assert len(list(pictures.glob("*.png"))) == 2
