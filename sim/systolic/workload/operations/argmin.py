"""Argmin: where along an axis the smallest element is; as `argmax`, of the other end."""

from __future__ import annotations

import numpy as np

from systolic.workload.operations.argmax import place_row

ARGMIN = place_row("min", np.argmin)
