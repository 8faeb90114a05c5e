"""Does the notebook on JAX say what its runs do?"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "04_from_jax.ipynb"


def test_cells_run_in_one_namespace() -> None:
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    namespace: dict[str, object] = {}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for number, cell in enumerate(content["cells"]):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
    said = shown.getvalue()
    assert "bit for bit as the machine adds: True" in said
    assert said.count("softmax") == said.count("causal_mask") == 1
    assert said.rstrip().endswith("True True")
