"""A pytest plugin: run the tests listed in $MUTATION_TESTS, in that order, each within its time.

The file holds JSON: [[test, processor seconds it may take], ...]. A test that takes longer fails.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MEMORY_BYTES = 12 << 30
SPENT = "processor seconds: "
_limits: dict[str, float] = dict(json.loads(Path(os.environ["MUTATION_TESTS"]).read_text()))


class TooLong(BaseException):
    """A test took far more processor time than on the original."""


def _stop(*_: Any) -> None:
    raise TooLong


def pytest_configure() -> None:
    """Let no mutant take all memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, _stop)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the listed tests, in their order."""
    by_name = {item.nodeid: item for item in items}
    kept = [by_name[name] for name in _limits if name in by_name]
    config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in _limits])
    items[:] = kept


def pytest_unconfigure() -> None:
    """Say what the run cost, in processor time: the machine may be busy with other things."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"\n{SPENT}{sum(u.ru_utime + u.ru_stime for u in used):.1f}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that takes too long."""
    signal.setitimer(signal.ITIMER_PROF, _limits[item.nodeid])
    try:
        return (yield)
    except TooLong:
        pytest.fail("takes ten times its processor time", pytrace=False)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
