"""Times that no schedule can beat, of operations and of runs; asks nobody what a compiler does."""

from systolic.bounds.multiply_adds import product_multiply_adds
from systolic.bounds.run import OperationBound, operation_bounds, run_bound

__all__ = ["OperationBound", "operation_bounds", "product_multiply_adds", "run_bound"]
