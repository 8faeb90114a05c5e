"""The compiled form of `steps`: the same functions, for large work; cached on disk.

A cached function is used only while none of the files that were compiled into it has changed. Numba
itself looks only at the file of the function that is called.
"""

from __future__ import annotations

import zlib
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numba

from systolic.machine.event.dram import control, hand, steps, tables

# The functions allocate nothing, so references need no counting, which took most of the time.
_compile: Any = partial(numba.njit, nogil=True, boundscheck=False, _nrt=False)
_MODULES = tables, hand, control, steps
_stamp = 0
# Compiled functions find one another by name, in a copy of the modules' names.
_names: dict[str, Any] = {}
for _module in _MODULES:
    _stamp = zlib.crc32(Path(str(_module.__file__)).read_bytes(), _stamp)
    _names.update(vars(_module))
for _name, _function in list(_names.items()):
    if isinstance(_function, FunctionType):
        _copy = FunctionType(_function.__code__, _names, _name)
        _names[_name] = _compile()(_copy)

_do_run, _do_arrange = _names["run"], _names["arrange_cycle"]


def _entries(stamp: int) -> tuple[Any, ...]:
    """Return the functions that are called from outside; the stamp is part of what numba caches."""

    @_compile(cache=True)  # type: ignore[untyped-decorator]
    def run(t: Any, cycle: Any, until: Any, stop_at_end: Any) -> Any:
        return _do_run(t, cycle, until, stop_at_end) if stamp >= 0 else cycle

    @_compile(cache=True)  # type: ignore[untyped-decorator]
    def arrange_cycle(t: Any, cycle: Any) -> None:
        if stamp >= 0:
            _do_arrange(t, cycle)

    return run, arrange_cycle


run, arrange_cycle = _entries(_stamp)
