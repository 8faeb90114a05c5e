"""Workloads: tensors, operations on them, their data, and what numpy says the results are."""

from sim.workload.compare import differing, max_abs_error
from sim.workload.data import DataSource, load_data
from sim.workload.files import write_npy
from sim.workload.host import check_host_memory
from sim.workload.operation import HOMES, Home, Tensor, Transpose, parse_shape, transpose
from sim.workload.reference import numpy_transpose, reference_transpose

__all__ = [
    "HOMES",
    "DataSource",
    "Home",
    "Tensor",
    "Transpose",
    "check_host_memory",
    "differing",
    "load_data",
    "max_abs_error",
    "numpy_transpose",
    "parse_shape",
    "reference_transpose",
    "transpose",
    "write_npy",
]
