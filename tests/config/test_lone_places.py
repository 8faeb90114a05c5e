"""Do run files of one operation reach those whose indices are known, are data, or are no inputs?"""

from __future__ import annotations

from pathlib import Path

import pytest

import systolic
from systolic.config import load_run

TABLES = {
    "take": 'op = "take"\nshape = "f32[6,4]"\naxis = 0\nindices = [5, 0, 5]',
    "gather": 'op = "gather"\nsource = "f32[6,4]"\nplaces = "s32[3]"\naxis = 0',
    "scatter": 'op = "scatter"\nsource = "f32[3,4]"\nupdates = "f32[3,2]"\nindices = [1, 3]',
    "iota": 'op = "iota"\nout = "s32[9]"',
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_lone_operation(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "lone.toml"
    path.write_text(f'chip = "ideal_4x4"\n[workload]\n{TABLES[kind]}\n', encoding="utf-8")
    assert systolic.run(load_run(path)).summary["values"]["equal"] is True
