"""What a layout costs, as sentences: the tensors that operations transpose on the way.

The functions take the dict of a summary; nothing is measured here (`systolic.run.transposed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from systolic.report.summary.wording import number, plural

NOTABLE = 0.01
"""The least part of the vectors of its operation that is worth a line."""
MOST_SHOWN = 3
WAYS = {"engine": "by an engine", "dram": "by a trip to DRAM and back"}
"""How a tensor is transposed, if not by the array."""


def transposed_texts(summary: Mapping[str, Any], most: int = MOST_SHOWN) -> list[str]:
    """Return a line for each tensor that is transposed on the way, those that cost most first.

    ``lhs is transposed on the way: 512 of 2,560 vectors; as {0,1} it would not be``. A last line
    counts those that are left out: beyond `most`, or less than NOTABLE of their operation.
    """
    operations = summary.get("operations", ())
    found = [
        (one, operation) for operation in operations for one in operation.get("transposed", ())
    ]
    found.sort(key=lambda pair: -pair[0]["vectors"])
    shown = [
        (one, operation)
        for one, operation in found
        if one["by"] in WAYS or one["vectors"] >= NOTABLE * operation["streamed_vectors"]
        if one["layout"] or operation["multiply_adds"]
    ][:most]
    lines = [
        (f"{operation['name']}: " if len(operations) > 1 else "") + _text(one, operation)
        for one, operation in shown
    ]
    left_out = len(found) - len(shown)
    if left_out and lines:
        lines.append(f"and {plural(left_out, 'other tensor')} (as JSON all are there)")
    return lines


def _text(one: Mapping[str, Any], operation: Mapping[str, Any]) -> str:
    how = WAYS.get(one["by"]) or (
        f"{number(one['vectors'])} of {plural(operation['streamed_vectors'], 'vector')}"
    )
    text = f"{one['tensor']} is transposed on the way: {how}"
    return f"{text}; as {one['layout']} it would not be" if one["layout"] else text
