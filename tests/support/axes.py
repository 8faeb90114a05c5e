"""The permutation of a transpose as keywords of `GraphBuilder.add`, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from systolic.workload import Operation, TransposeAttributes


def told(axes: Sequence[int]) -> dict[str, Any]:
    """Return the attribute of a transpose; nothing for another operation, which has no axes."""
    return {"permutation": axes} if axes else {}


def axes_of(op: Operation) -> tuple[int, ...]:
    """Return the permutation of a transpose."""
    return op.attributes_as(TransposeAttributes).axes
