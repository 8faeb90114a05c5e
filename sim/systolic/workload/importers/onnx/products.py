"""Rows of ONNX operators that are products of matrices."""

from __future__ import annotations

from systolic.errors import WorkloadError
from systolic.workload.importers.arithmetic import is_integer
from systolic.workload.importers.errors import CannotLowerError
from systolic.workload.importers.form import ModelValue
from systolic.workload.importers.onnx.context import NodeOperands, OnnxContext, OnnxRow
from systolic.workload.importers.onnx.model import OnnxNode


def multiplied(
    at: OnnxContext, lhs: ModelValue, rhs: ModelValue, kind: str | None = None
) -> ModelValue:
    """Multiply as numpy's matmul does: a vector is a row in front, and a column behind."""
    one, other = at.dims(lhs), at.dims(rhs)
    if not one or not other:
        raise WorkloadError("a product of a single number")
    left = at.reshape(lhs, (1, *one)) if len(one) == 1 else lhs
    right = at.reshape(rhs, (*other, 1)) if len(other) == 1 else rhs
    found: ModelValue = at.product(left, right, kind)
    dims = list(at.dims(found))
    if len(other) == 1:
        del dims[-1]
    if len(one) == 1:
        del dims[-1 if len(other) == 1 else -2]
    return at.reshape(found, dims)


def _matmul(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    if is_integer(at.shape(given[0])):
        raise CannotLowerError(f"of {at.kind(given[0])}")
    return multiplied(at, given[0], given[1])


def _gemm(at: OnnxContext, node: OnnxNode, given: NodeOperands) -> ModelValue:
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    if is_integer(at.shape(given[0])):
        raise CannotLowerError(f"of {at.kind(given[0])}")
    one, other = (
        at.transpose(value, (1, 0)) if node.number(key) else value
        for value, key in ((given[0], "transA"), (given[1], "transB"))
    )
    if len(at.dims(one)) != 2 or len(at.dims(other)) != 2:
        raise WorkloadError(f"a product of {list(at.dims(one))} and {list(at.dims(other))}")
    found: ModelValue = at.product(one, other)
    if alpha != 1.0:
        found = at.scaled(found, alpha)
    if given[2] is None or beta == 0.0:
        return found
    term = at.plain(given[2]) if beta == 1.0 else at.binary(
        "multiply", given[2], at.like(beta, given[2])
    )  # fmt: skip
    if at.common(found, term) != at.dims(found):
        raise WorkloadError(f"a term of {list(at.dims(term))} for {list(at.dims(found))}")
    return at.binary("add", found, term)


PRODUCTS: dict[str, OnnxRow] = {"MatMul": _matmul, "Gemm": _gemm}
