"""Has every operation its file, its row in each table, and its keys in run files?"""

from __future__ import annotations

import importlib

import pytest

from support.axes import axes_of
from systolic.compiler.lower.table import LOWERINGS
from systolic.config.operation_keys import AttributeKeys, OperandKeys, attribute_keys, operand_keys
from systolic.config.run_file import OperationTable, WorkloadTable
from systolic.config.schema import schema
from systolic.errors import WorkloadError
from systolic.workload import OPERATIONS, GraphBuilder
from systolic.workload.operations.aliases import ALIASES
from systolic.workload.operations.whole_rows import WHOLE_ROWS


def test_both_tables_have_the_same_operations() -> None:
    composites = {name for name, row in OPERATIONS.items() if row.parts is not None}
    assert LOWERINGS.keys() == (OPERATIONS.keys() - composites) | WHOLE_ROWS.keys()
    assert not WHOLE_ROWS.keys() & OPERATIONS.keys()
    assert composites == {
        "softmax", "layer_norm", "rms_norm", "batch_norm", "instance_norm", "group_norm", "clip",
        "conv1d", "conv3d", "conv_transpose", "conv_input_gradient", "conv_weight_gradient",
        "reduce_window", "resize",
        "leaky_relu", "prelu", "elu", "celu", "hard_sigmoid", "popcount",
        "matmul_integer", "conv_integer", "dot",
        "cumulative", "argmax", "argmin", "top_k", "reduce_measure", "scatter", "gather",
        "dynamic_scatter", "dynamic_slice", "dynamic_update_slice",
        "depth_to_space", "space_to_depth", "lstm", "gru",
    }  # fmt: skip


@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_row_is_in_the_file_of_its_name(kind: str) -> None:
    module = importlib.import_module(f"systolic.workload.operations.{kind}")
    assert getattr(module, kind.upper()) is OPERATIONS[kind]


@pytest.mark.parametrize("kind", OPERATIONS)
def test_run_files_have_its_keys(kind: str) -> None:
    row = OPERATIONS[kind]
    assert {*operand_keys(row)} <= WorkloadTable.model_fields.keys() & OperandKeys.model_fields
    for table in (WorkloadTable, OperationTable):
        assert {*attribute_keys(row)} <= table.model_fields.keys() & AttributeKeys.model_fields


def test_the_schema_has_the_names_and_the_attributes() -> None:
    tables = schema("run")["$defs"]
    names = [*OPERATIONS, *ALIASES]
    assert tables["WorkloadTable"]["properties"]["op"]["anyOf"][0]["enum"] == names
    assert tables["OperationTable"]["properties"]["op"]["enum"] == names
    for table in ("WorkloadTable", "OperationTable"):
        about = tables[table]["properties"]["permutation"]["description"]
        assert about == "transpose: source axis of each result axis (a matrix needs none)"


def test_attributes_that_an_operation_does_not_have() -> None:
    builder = GraphBuilder()
    x = builder.tensor("x", "f32[2,3]")
    with pytest.raises(WorkloadError) as caught:
        builder.add("relayout", (x,), "f32[2,3]", name="y", permutation=[1, 0])
    assert str(caught.value) == 'operation "y": permutation: op = "relayout" has no such key'


def test_lists_become_tuples() -> None:
    builder = GraphBuilder()
    x = builder.tensor("x", "f32[2,3,4]")
    builder.add("transpose", (x,), "f32[4,3,2]", permutation=[2, 1, 0])
    assert axes_of(builder.graph().operations[0]) == (2, 1, 0)
