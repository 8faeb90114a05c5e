"""Makes the helpers of this folder importable, and decides what a missing HDL tool means.

The helpers (`rtl_harness` and the other `rtl_*.py`) are plain modules beside this file;
tests elsewhere that want them add this folder to `sys.path` in the same way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from rtl_build import TOOLS, missing_programs

REQUIRE_VARIABLE = "SYSTOLIC_REQUIRE_RTL"


def require_tool(tool: str) -> str:
    """Return `tool`, or skip the test that needs it; with SYSTOLIC_REQUIRE_RTL=1, fail it."""
    missing = missing_programs(tool)
    if not missing:
        return tool
    reason = f"{tool} needs {', '.join(missing)}, which is not on PATH"
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{reason} ({REQUIRE_VARIABLE}=1 forbids skipping)")
    pytest.skip(reason)


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest) -> str:
    """Each HDL simulator in turn, skipped (or failed) when absent."""
    return require_tool(request.param)


@pytest.fixture
def need() -> Callable[[str], str]:
    """The function `require_tool`, for tests that choose their simulator themselves."""
    return require_tool
