"""StableHLO text as HLO text, by the parser that comes with JAX (an extra of this package: jax)."""

from __future__ import annotations

from typing import Any

from systolic.errors import WorkloadError, shortened
from systolic.workload.importers.errors import ImportFileError

LONGEST_REASON = 300


def as_hlo(text: str) -> str:
    """Return a module of StableHLO as HLO text.

    Raises:
        WorkloadError: JAX is not installed.
        ImportFileError: its parser refuses the text.

    """
    translate = _translator()
    try:
        computation = translate(text, use_tuple_args=False, return_tuple=False)
        found: str = computation.as_hlo_text(True)  # with large constants
    except Exception as error:  # the parser has errors of its own, by the release
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise ImportFileError(
            f"is not StableHLO that JAX's parser reads ({shortened(lines[0], LONGEST_REASON)})"
            if lines
            else "is not StableHLO that JAX's parser reads"
        ) from None
    return found


def _translator() -> Any:
    try:
        from jaxlib import _jax
    except ImportError:
        raise WorkloadError(
            "StableHLO needs the package jax, which is not installed (an extra of systolic: jax)"
        ) from None
    return _jax.mlir.mlir_module_to_xla_computation
