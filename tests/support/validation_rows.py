"""Rows of validation tables for tests: a product on the 4 x 4 chip, and changes to its cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

LOAD = "load weights=state_buffer[0:4]+0 f32 (1x4)"
MULTIPLY = "matmul moving=state_buffer[0:4]+2048 f32 (1x3) result=result_buffer[0:4]+0 f32 (1x3)"
ROW = {
    "id": "one", "what": "a product", "chip": "ideal_4x4", "program": f"{LOAD}; {MULTIPLY}",
    "measure": "length", "unit": "cycles", "published": "13", "tolerance": "0", "source": "a page",
}  # fmt: skip


def csv_text(*changes: Mapping[str, str]) -> str:
    """Return a table with a row for each set of changes to the cells of ROW."""
    file = io.StringIO()
    names = list(dict.fromkeys([*ROW, *(name for cells in changes for name in cells)]))
    writer = csv.DictWriter(file, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({**ROW, **cells} for cells in changes)
    return file.getvalue()
