"""Are the keys of [compile] the compiler's options, with one definition of each?"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from systolic.config import CompileTable, load_run
from systolic.config.compile_table import options_of
from systolic.config.schema import schema
from systolic.errors import ConfigError
from systolic.workload.options import Options, ProductOptions


def test_every_option_is_a_key_with_its_default() -> None:
    assert options_of(CompileTable()) == Options()
    keys = schema("run")["$defs"]["CompileTable"]["properties"]
    assert [*keys] == [field.name for field in dataclasses.fields(Options)]
    assert all(key["description"] for key in keys.values())


def test_every_option_of_a_product_is_a_key_of_its_table() -> None:
    keys = schema("run")["$defs"]["ProductTable"]["properties"]
    assert [*keys] == [field.name for field in dataclasses.fields(ProductOptions)]
    assert {*keys} < {field.name for field in dataclasses.fields(Options)}


def test_choices_for_one_product_reach_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(
        'chip = "ideal_4x4"\n[workload.tensors]\nx = {shape = "f32[8,8]"}\n'
        '[[workload.ops]]\nop = "matmul"\nname = "y"\ninputs = ["x", "x"]\nout = "f32[8,8]"\n'
        '[compile]\nouter = "moving"\n[compile.operations.y]\nstationary = "lhs"\n',
        encoding="utf-8",
    )
    options = load_run(path).options
    assert options.of("y") == ProductOptions(stationary="lhs", outer="moving")
    assert options.of("z") == ProductOptions(outer="moving")
    grouped = load_run(path, ["compile.operations.y.group=[1,2]"]).options
    assert grouped.of("y") == ProductOptions("lhs", (1, 2), "moving")
    with pytest.raises(ConfigError) as caught:
        load_run(path, ["compile.operations.y.grup=[1,2]"])
    assert str(caught.value) == (
        "override compile.operations.y.grup=[1,2]: [compile.operations.y] unknown key "
        '"grup" (known: group, outer, stationary); perhaps "group" was meant'
    )


def test_values_of_a_run_file_reach_the_compiler(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(
        'chip = "ideal_4x4"\n[workload]\nop = "transpose"\nshape = "f32[4,4]"\n'
        '[compile]\nblock = [2, 3]\nvia = "pe"\n',
        encoding="utf-8",
    )
    assert load_run(path).options == Options(block=(2, 3), via="pe")
    with pytest.raises(ConfigError, match=r"\[compile\] tile_columns: needs an integer >= 1, "):
        load_run(path, ["compile.tile_columns=0"])


def test_an_attribute_that_an_operation_of_a_graph_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(
        'chip = "ideal_4x4"\n[workload.tensors.x]\nshape = "f32[4,4]"\n'
        '[[workload.ops]]\nop = "relayout"\nname = "y"\ninputs = ["x"]\nout = "f32[4,4]"\n'
        "permutation = [1, 0]\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as caught:
        load_run(path)
    assert str(caught.value) == (
        f'{path}: [workload] ops: operation "y": permutation: op = "relayout" has no such key'
    )
