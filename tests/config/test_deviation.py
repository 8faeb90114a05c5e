"""`deviation`: the spread of random floating-point data."""

from __future__ import annotations

import numpy as np
import pytest

from support.command_line import refused
from systolic.layout import Shape
from systolic.workload import DataSource
from systolic.workload.data.sources import load_data

RUN = """\
chip = "ideal_4x4"
[workload]
op = "transpose"
shape = "{shape}"
data = "{data}"
deviation = {deviation}
"""


def test_random_floats_have_that_deviation():
    shape = Shape("f32", (1000,))
    plain = load_data(DataSource("random", 5), shape)
    wide = load_data(DataSource("random", 5, deviation=0.25), shape)
    assert np.array_equal(wide, plain / 4)
    assert abs(wide.std() - 0.25) < 0.02


@pytest.mark.parametrize(
    ("shape", "data", "deviation", "expected"),
    [
        ("f32[4,4]", "arange", "2", '"random" has one'),
        ("s8[4,4]", "random", "2", "only random floats have one: s8[4,4]"),
        ("f32[4,4]", "random", "0", "deviation"),
        ("f32[4,4]", "random", "nan", "deviation"),
    ],
)
def test_what_has_none_is_refused(tmp_path, shape, data, deviation, expected):
    path = tmp_path / "run.toml"
    path.write_text(RUN.format(shape=shape, data=data, deviation=deviation), encoding="utf-8")
    assert expected in refused("run", path, "--no-plots")
