"""The compiled form of `steps`: the same functions, for large work; cached on disk."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numba

from systolic.machine.event.dram import steps

# Compiled functions find one another by name, in a copy of the module's names.
_names: dict[str, Any] = dict(vars(steps))
for _name, _function in list(_names.items()):
    if isinstance(_function, FunctionType):
        _copy = FunctionType(_function.__code__, _names, _name)
        _names[_name] = numba.njit(cache=True, nogil=True, boundscheck=False)(_copy)

run, settle, on_chip = _names["run"], _names["settle"], _names["on_chip"]
