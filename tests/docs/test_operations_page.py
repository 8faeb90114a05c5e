"""Does docs/operations.md list every operation with its keys, and does its example run?"""

from __future__ import annotations

import dataclasses
import re
from typing import get_args

import systolic
from support.documents import ROOT
from systolic.config import load_run
from systolic.workload import OPERATIONS
from systolic.workload.operations.activation import FunctionName
from systolic.workload.operations.binary import OperatorName

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_every_operation_has_a_row_with_its_keys():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", PAGE, re.MULTILINE)
    found = {name: (inputs, keys) for name, inputs, keys in rows if name in OPERATIONS}
    assert list(found) == list(OPERATIONS)
    for name, row in OPERATIONS.items():
        inputs, keys = found[name]
        assert re.findall(r"`(\w+)`", keys) == [f.name for f in dataclasses.fields(row.attributes)]
        named = re.findall(r"`(\w+)`", inputs)
        alone = {"one": 1, "none": 0}.get(inputs)
        assert named == [operand.name for operand in row.operands] or alone == len(row.operands)


def test_every_function_and_operator_is_named():
    for word in (*get_args(FunctionName), *get_args(OperatorName)):
        assert f"`{word}`" in PAGE


def test_the_examples_run(tmp_path):
    text, images, places = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "example.toml"
    path.write_text(text, encoding="utf-8")
    result = systolic.run(load_run(path))
    assert result.summary["values"]["equal"] is True
    assert result.outputs["y"].shape == (64, 96)
    path.write_text(places, encoding="utf-8")
    result = systolic.run(load_run(path))
    assert result.summary["values"]["equal"] is True
    assert result.outputs["where"].tolist() == [0] * 8
    path.write_text(images, encoding="utf-8")
    result = systolic.run(load_run(path))
    assert result.summary["values"]["equal"] is True
    assert result.outputs["up"].shape == (1, 9, 9, 4)
