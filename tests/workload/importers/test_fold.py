"""Is the value right? Factors behind products go into the weights, and results stay."""

from __future__ import annotations

import numpy as np
import pytest

import systolic
from systolic.layout import Shape
from systolic.workload.importers.form import ModelForm, ModelView
from systolic.workload.importers.graph import as_graph

RNG = np.random.default_rng(4)
X = RNG.standard_normal((6, 5)).astype(np.float32)
W = RNG.standard_normal((5, 4)).astype(np.float32)
OUT = Shape("f32", (6, 4))


def columns() -> np.ndarray:
    return RNG.uniform(0.5, 2, 4).astype(np.float32)


def product(form: ModelForm) -> ModelView:
    source = form.input("x", Shape("f32", (6, 5)))
    name = form.node("matmul", (source.tensor, form.whole(W)), OUT)
    return ModelView(name, OUT.dims, (0, 1))


def each(array: np.ndarray) -> np.ndarray:
    return np.broadcast_to(array, OUT.dims)


@pytest.mark.parametrize("order", ["subtract multiply add", "multiply", "add divide multiply add"])
def test_a_batch_norm_is_no_work_of_its_own(order):
    form, wanted = ModelForm(), X.astype(np.float64) @ W
    found = product(form)
    numpy = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}
    for operator in order.split():
        array = columns()
        found = form.binary(operator, found, each(array), OUT)
        wanted = numpy[operator](wanted, array.astype(np.float64))
    imported = as_graph(form, [found], [OUT])
    operators = [getattr(op.attributes, "operator", op.kind) for op in imported.graph.operations]
    assert not {"multiply", "divide"} & {*operators}
    result = systolic.run(imported.graph, "ideal_4x4", {"x": X, **imported.constants})
    np.testing.assert_allclose(result.outputs["output_0"], wanted, rtol=0, atol=1e-5)


def test_sums_that_something_else_takes_keep_their_weights():
    form = ModelForm()
    sums = product(form)
    scaled = form.binary("multiply", sums, each(columns()), OUT)
    imported = as_graph(form, [scaled, sums], [OUT, OUT])
    assert [op.kind for op in imported.graph.operations].count("binary") == 1
    result = systolic.run(imported.graph, "ideal_4x4", {"x": X, **imported.constants})
    np.testing.assert_allclose(result.outputs["output_1"], X @ W, rtol=0, atol=1e-5)


def test_a_factor_that_is_not_one_for_each_column_stays():
    form = ModelForm()
    rows = np.broadcast_to(RNG.uniform(0.5, 2, (6, 1)).astype(np.float32), OUT.dims)
    scaled = form.binary("multiply", product(form), rows, OUT)
    imported = as_graph(form, [scaled], [OUT])
    assert [op.kind for op in imported.graph.operations] == ["matmul", "binary"]
