"""Workloads: tensors, operations on them, their data, and what numpy says the results are."""

from sim.workload.compare import differing, first_differing, max_abs_error
from sim.workload.data import DataSource, load_data
from sim.workload.evaluate import exact_graph, reference_graph, reference_values
from sim.workload.files import write_npy
from sim.workload.graph import Graph, GraphBuilder, Operation, make_graph, transpose_graph
from sim.workload.host import check_host_memory
from sim.workload.meaning import OPERATIONS, Meaning, Rules
from sim.workload.operation import HOMES, Home, Tensor, Transpose, parse_shape, transpose
from sim.workload.ranges import RangeLoss, range_losses
from sim.workload.reference import numpy_transpose, reference_transpose

__all__ = [
    "HOMES",
    "OPERATIONS",
    "DataSource",
    "Graph",
    "GraphBuilder",
    "Home",
    "Meaning",
    "Operation",
    "RangeLoss",
    "Rules",
    "Tensor",
    "Transpose",
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
    "transpose",
    "transpose_graph",
    "write_npy",
]
