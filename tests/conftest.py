"""Hypothesis: the same examples in every run, so that a red test is the change's doing.

`HYPOTHESIS_PROFILE=explore` draws new ones; what it finds becomes a test of its own.
`--update-docs` writes the listings of README.md and docs/ again (tests/docs/test_commands.py).
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

collect_ignore = ["regression_example"]  # a repository of its own: test_pytest_plugin.py runs it

os.environ.setdefault("SYSTOLIC_VERIFY", "1")  # the compiler checks the result of every pass
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")  # the processes of pytest share the CPUs already

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what rewrites the documents' listings."""
    help_text = "write listings of README.md and docs/ again where commands print something else"
    parser.addoption("--update-docs", action="store_true", default=False, help=help_text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to let two processes write one page."""
    if config.getoption("--update-docs") and config.getoption("numprocesses", None):
        raise pytest.UsageError("--update-docs needs one process: add -n 0")
