"""Other names of operations and of their settings, as people write them in other tools.

An alias is a name for an operation with some of its attributes settled: `relu` is the activation
whose function is `ramp`. Graphs, summaries and errors then have the table's own names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from systolic.errors import WorkloadError, nearest, shortened
from systolic.workload.operations.activation import FUNCTIONS
from systolic.workload.operations.binary import OPERATORS
from systolic.workload.operations.table import OPERATIONS


@dataclass(frozen=True, slots=True)
class Alias:
    """An operation of the table, and the attributes that its other name settles."""

    kind: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


def _named(kind: str, names: str, **attributes: Any) -> dict[str, Alias]:
    return {name: Alias(kind, attributes) for name in names.split()}


def _each(kind: str, key: str, names: Iterable[str]) -> dict[str, Alias]:
    """Return an alias for each value of an attribute that is no operation's name."""
    return {name: Alias(kind, {key: name}) for name in names if name not in OPERATIONS}


BY_ATTRIBUTE: dict[str, dict[str, str]] = {
    "function": {"relu": "ramp", "exp": "exponential", "sqrt": "square_root", "swish": "silu"},
    "operator": {
        "sub": "subtract", "mul": "multiply", "div": "divide", "pow": "power",
        "maximum": "max", "minimum": "min",
    },
    "reduction": {"average": "mean", "avg": "mean", "prod": "product"},
}  # fmt: skip
"""Other names of an attribute's values."""

ALIASES: dict[str, Alias] = {
    **_named("matmul", "linear dense fully_connected gemm mm bmm batch_matmul"),
    **_named("conv2d", "conv convolution"),
    **_named("conv_transpose", "conv_transpose1d conv_transpose2d conv_transpose3d deconvolution"),
    **_named("batch_norm", "batchnorm batch_normalization"),
    **_named("instance_norm", "instancenorm instance_normalization"),
    **_named("group_norm", "groupnorm group_normalization"),
    **_named("clip", "clamp"),
    **_named("resize", "upsample interpolate"),
    **_named("reduce_window", "max_pool1d max_pool3d", reduction="max"),
    **_named("reduce_window", "avg_pool1d avg_pool3d", reduction="mean"),
    **_named("transpose", "permute"),
    **_named("reshape", "flatten view squeeze unsqueeze expand_dims"),
    **_named("relayout", "copy"),
    **_named("cast", "convert astype"),
    **_named("select", "where"),
    **_named("concat", "concatenate cat"),
    **_named("layer_norm", "layernorm layer_normalization"),
    **_named("rms_norm", "rmsnorm"),
    **_named("requantise", "requantize"),
    **_named("take", "embedding", axis=0),
    **_named("reverse", "flip"),
    **_named("cumulative", "cumsum", fold="sum"),
    **_named("cumulative", "cumprod", fold="product"),
    **_named("cumulative", "cummax", fold="max"),
    **_named("cumulative", "cummin", fold="min"),
    **_named("top_k", "topk"),
    **_named("reduce_measure", "reduce_sum_square", measure="sum_of_squares"),
    **_named("reduce_measure", "reduce_l1", measure="l1"),
    **_named("reduce_measure", "reduce_l2", measure="l2"),
    **_named("reduce_measure", "reduce_log_sum", measure="log_sum"),
    **_named("reduce_measure", "reduce_log_sum_exp logsumexp", measure="log_sum_exp"),
    **_named("causal_mask", "tril", value=0.0, upper=False),
    **_named("causal_mask", "triu", value=0.0, upper=True),
    **_named("expand", "broadcast_to broadcast_in_dim"),
    **_named("pool", "max_pool max_pool2d", reduction="max"),
    **_named("pool", "avg_pool avg_pool2d average_pool", reduction="mean"),
    **_named("reduce", "max reduce_max", reduction="max"),
    **_named("reduce", "min reduce_min", reduction="min"),
    **_named("reduce", "mean reduce_mean", reduction="mean"),
    **_named("reduce", "sum reduce_sum", reduction="sum"),
    **_named("reduce", "global_avg_pool global_average_pool", reduction="mean", axes=(1, 2)),
    **_named("reduce", "global_max_pool", reduction="max", axes=(1, 2)),
    **_each("activation", "function", (*FUNCTIONS, *BY_ATTRIBUTE["function"])),
    **_each("binary", "operator", (n for n in OPERATORS if n not in ("max", "min"))),
    **_each("binary", "operator", BY_ATTRIBUTE["operator"]),
}
"""Other names of operations. `max` and `min` reduce a tensor, `maximum` and `minimum` take two."""


def operation_named(name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the operation of that name and its attributes, in the table's own words.

    Raises:
        WorkloadError: there is no operation of that name, or an attribute is given that the alias
            settles.

    """
    alias = ALIASES.get(name, Alias(name))
    if alias.kind not in OPERATIONS:
        raise WorkloadError(unknown_operation(name))
    for key in given:
        if key in alias.attributes:
            raise WorkloadError(f'{key}: op = "{name}" settles it; op = "{alias.kind}" takes one')
    return alias.kind, {key: own_word(key, v) for key, v in {**given, **alias.attributes}.items()}


def own_word(key: str, value: Any) -> Any:
    """Return an attribute's value in the word of its operation, such as `ramp` for `relu`."""
    return BY_ATTRIBUTE[key].get(value, value) if key in BY_ATTRIBUTE else value


def unknown_operation(name: str) -> str:
    """Return that there is no such operation, and the nearest names if some are near."""
    near = [f'"{word}"' for word in nearest(name, (*OPERATIONS, *ALIASES))]
    hint = (
        f"; perhaps {' or '.join(near)} was meant"
        if near
        else f" ({len(OPERATIONS)} are known, see docs/operations.md)"
    )
    return f'unknown operation "{shortened(name)}"{hint}'
