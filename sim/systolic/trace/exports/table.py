"""The formats that a run can be exported to: a further format is a further row, and its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from systolic.trace.exports.observed import Observed
from systolic.trace.exports.perfetto import perfetto

FORMATS: dict[str, Callable[[Observed], Iterator[str]]] = {"perfetto": perfetto}
"""By name, what yields the text of the file piece by piece."""
