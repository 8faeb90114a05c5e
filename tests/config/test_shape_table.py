"""Does a table in place of a shape say what its keys say, in all places where a shape stands?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import systolic
from systolic.config import load_run
from systolic.errors import ConfigError
from systolic.layout import Layout, Shape

SOURCE = Shape("f32", (2, 3), Layout((0, 1), padded_dimensions=(3, 5), padding_value=7))
RESULT = Shape("f32", (2, 3), Layout((1, 0), padded_dimensions=(4, 4), padding_value=-1))
LONE = """
chip = "ideal_4x4"
[workload]
op = "relayout"
home = "dram"
shape = { shape = "f32[2,3]{0,1}", padded_dimensions = [3, 5], padding_value = 7 }
out = { shape = "f32[2,3]{1,0}", padded_dimensions = [4, 4], padding_value = -1.0 }
"""
GRAPH = """
chip = "ideal_4x4"
[workload]
home = "dram"
[workload.tensors.source]
shape = "f32[2,3]{0,1}"
padded_dimensions = [3, 5]
padding_value = 7
[[workload.ops]]
op = "relayout"
inputs = ["source"]
name = "result"
out = { shape = "f32[2,3]", padded_dimensions = [4, 4], padding_value = -1 }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", [LONE, GRAPH])
def test_legacy_padding_of_source_and_result(tmp_path: Path, text: str) -> None:
    graph = load_run(written(tmp_path, text)).graph
    (source,), (result,) = graph.inputs, graph.outputs
    assert (graph.shape(source), graph.shape(result)) == (SOURCE, RESULT)
    outputs = systolic.run(written(tmp_path, text)).outputs
    assert np.array_equal(outputs[result], np.arange(1, 7).reshape(2, 3))


def test_a_home_of_the_result_alone(tmp_path: Path) -> None:
    text = LONE.replace("{1,0}", "{1,0:T(4,4)}").replace(
        "out = {", 'out = { home = "state_buffer",'
    )
    graph = load_run(written(tmp_path, text)).graph
    homes = [graph.tensor(name).home for name in (*graph.inputs, *graph.outputs)]
    assert homes == ["dram", "state_buffer"]


def test_text_alone_says_the_same_as_a_table_of_it(tmp_path: Path) -> None:
    text = 'chip = "ideal_4x4"\n[workload]\nop = "transpose"\nshape = {}'
    plain = load_run(written(tmp_path, text.format('"s8[4,6]{0,1}"')))
    table = load_run(written(tmp_path, text.format('{ shape = "s8[4,6]{0,1}" }')))
    assert plain.graph == table.graph


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("shape = 3", "[workload] shape: needs text, found 3"),
        ("shape = {}", "[workload.shape] shape: is missing; needs text"),
        ('shape = { shape = "f32[2,3]", padded_dimension = [3, 5] }',
         '[workload.shape] unknown key "padded_dimension" (known: byte, home, padded_dimensions, '
         'padding_value, partition, shape); perhaps "padded_dimensions" was meant'),
        ('shape = { shape = "f32[2,3]", padded_dimensions = 3 }',
         "[workload.shape] padded_dimensions: needs a list, found 3"),
        ('shape = { shape = "f32[2,3]", padded_dimensions = [3] }',
         "[workload] shape: padded_dimensions must name 2 sizes, one for each dimension, found 1"),
        ('shape = { shape = "f32[2,3]", padded_dimensions = [1, 5] }',
         "[workload] shape: padded_dimensions must be at least the dimensions, "
         "found 1 for dimension 0 of size 2"),
        ('shape = { shape = "f32[2,3]", padding_value = 3 }',
         "[workload] shape: padding_value needs padded_dimensions, which say what it fills"),
        ('shape = { shape = "f32[2,3]", padded_dimensions = [3, 5], padding_value = "a" }',
         '[workload.shape] padding_value: needs a number, found "a"'),
        ('shape = { shape = "s8[2,3]", padded_dimensions = [3, 5], padding_value = 300 }',
         "[workload] shape: padding_value must be a whole number from -128 to 127 for s8, "
         "found 300"),
        ('shape = { shape = "f32[2,3]", home = "psum" }',
         '[workload.shape] home: needs one of "state_buffer", "dram", found "psum"'),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, keys: str, message: str) -> None:
    text = f'chip = "ideal_4x4"\n[workload]\nop = "transpose"\n{keys}\n'
    with pytest.raises(ConfigError) as refused:
        load_run(written(tmp_path, text))
    assert str(refused.value).removeprefix(f"{tmp_path / 'run.toml'}: ") == message
