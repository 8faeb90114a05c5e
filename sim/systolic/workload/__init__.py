"""Workloads: tensors, operations on them, their data, and what numpy says the results are."""

from systolic.workload.compare import differing, first_differing, max_abs_error
from systolic.workload.data.host_memory import check_host_memory
from systolic.workload.data.npy_csv import write_npy
from systolic.workload.data.sources import DataSource, load_data
from systolic.workload.evaluate import exact_graph, reference_graph, reference_values
from systolic.workload.graph import Graph, GraphBuilder, make_graph
from systolic.workload.operation import Operation
from systolic.workload.operations.row import Attributes, Rules
from systolic.workload.operations.table import OPERATIONS
from systolic.workload.operations.transpose import (
    TransposeAttributes,
    numpy_transpose,
    reference_transpose,
)
from systolic.workload.ranges import RangeLoss, range_losses
from systolic.workload.tensor import HOMES, Home, Tensor, parse_shape

__all__ = [
    "HOMES",
    "OPERATIONS",
    "Attributes",
    "DataSource",
    "Graph",
    "GraphBuilder",
    "Home",
    "Operation",
    "RangeLoss",
    "Rules",
    "Tensor",
    "TransposeAttributes",
    "check_host_memory",
    "differing",
    "exact_graph",
    "first_differing",
    "load_data",
    "make_graph",
    "max_abs_error",
    "numpy_transpose",
    "parse_shape",
    "range_losses",
    "reference_graph",
    "reference_transpose",
    "reference_values",
    "write_npy",
]
