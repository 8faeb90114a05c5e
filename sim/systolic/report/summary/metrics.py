"""The profiler's figures as lines of the summary's table (`systolic.run.metrics` counts them)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from systolic.report.summary.wording import number, plural

ACTIVE = "_active_time_percent"


def metric_lines(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each line."""
    shares = {key.removesuffix(ACTIVE): v for key, v in found.items() if key.endswith(ACTIVE)}
    texts = [f"{name.removesuffix('_engine')} {_share(v)}" for name, v in shares.items()]
    yield "active", ", ".join(texts)
    yield "array", ", ".join(_array_texts(found))
    yield "memory", ", ".join(_memory_texts(found))


def _array_texts(found: Mapping[str, Any]) -> Iterator[str]:
    yield plural(found["matmul_instruction_count"], "matmul instruction")
    yield f"HFU {_share(found['hfu_estimated_percent'])}"
    if "mfu_estimated_percent" in found:
        yield f"MFU {_share(found['mfu_estimated_percent'])}"
        yield f"{number(found['transpose_flops'])} FLOPs of transposes"


def _memory_texts(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"MBU {_share(found['mbu_estimated_percent'])}"
    if "arithmetic_intensity" in found:
        yield f"{found['arithmetic_intensity']:.4g} FLOPs per byte"
    if "spill_bytes" in found:
        yield f"{plural(found['spill_bytes'], 'byte')} spilled"


def _share(percent: float) -> str:
    return f"{percent:.2f} %"
