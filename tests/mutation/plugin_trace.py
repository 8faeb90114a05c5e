"""A pytest plugin: which lines and functions of the package does each test execute?

Writes JSON to $MUTATION_TRACE: {test: [processor seconds, {file: [lines]}, {file: [functions]}]}.
A function is followed for its first CALLS calls of a test, each for LINES line events: enough for
an order of tests, at a bearable cost.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

CALLS, LINES = 40, 4000


class Tracer:
    """Collects for one test at a time."""

    def __init__(self, package: Path) -> None:
        self._prefix = f"{package}{os.sep}"
        self._calls: dict[CodeType, int] = {}
        self._lines: dict[CodeType, set[int]] = {}
        self._events = 0

    def begin(self) -> None:
        """Forget the test before."""
        self._calls.clear()
        self._lines = {}
        threading.settrace(self.call)
        sys.settrace(self.call)

    def end(self) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
        """Return lines and functions by file below the package."""
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        lines: dict[str, set[int]] = {}
        functions: dict[str, set[str]] = {}
        for code, seen in self._lines.items():
            file = code.co_filename[len(self._prefix) :]
            lines.setdefault(file, set()).update(seen)
            functions.setdefault(file, set()).add(code.co_qualname)
        return {f: sorted(x) for f, x in lines.items()}, {
            f: sorted(x) for f, x in functions.items()
        }

    def call(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Follow a call into the package."""
        code = frame.f_code
        count = self._calls.get(code)
        if count is None:
            count = 0 if code.co_filename.startswith(self._prefix) else CALLS
        self._calls[code] = count + 1
        if count >= CALLS:
            return None
        seen = self._lines.setdefault(code, {code.co_firstlineno})
        left = LINES

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal left
            seen.add(frame.f_lineno)
            left -= 1
            if not left:
                frame.f_trace_lines = False
            return line

        return line


_found: dict[str, Any] = {}
_tracer = Tracer(Path(os.environ["MUTATION_PACKAGE"]).resolve())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Trace set-up, call and tear-down of each test."""
    begun = time.process_time()
    _tracer.begin()
    try:
        return (yield)
    finally:
        lines, functions = _tracer.end()
        _found[item.nodeid] = [round(time.process_time() - begun, 3), lines, functions]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[Any]:
    """Leave out tests that fail or skip: they cannot tell a mutant from the original."""
    report = yield
    if not report.passed:
        item.stash[_unfit] = True
    return report


_unfit = pytest.StashKey[bool]()


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Nothing is known of a test before its tear-down is over."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was found."""
    unfit = {item.nodeid for item in session.items if item.stash.get(_unfit, False)}
    kept = {name: row for name, row in _found.items() if name not in unfit}
    Path(os.environ["MUTATION_TRACE"]).write_text(json.dumps(kept))
