"""Points in processes of this computer; nothing has to be started for it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from systolic.run.processes import Ended, as_finished
from systolic.sweep.rows import MACHINE, Answer, PointManner, PointTask, answer, ended_text, failed


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class LocalScheduler:
    """Runs up to `jobs` points at once, each in a process of its own.

    The end of a process is no matter to the points of others, nor to what is done.
    """

    jobs: int
    manner: PointManner

    def answers(
        self, tasks: Iterable[PointTask]
    ) -> Generator[tuple[PointTask, Answer] | None, None, None]:
        """Yield tasks with their answers as they are done; None when a moment has passed."""
        run = partial(answer, manner=self.manner)
        with closing(as_finished(run, tasks, jobs=self.jobs, apart=True)) as found:
            for pair in found:
                if pair is None:
                    yield None
                else:
                    yield pair[0], answer_of(*pair)


def answer_of(task: PointTask, found: Answer | Ended) -> Answer:
    """Return the answer of a task, also of one whose processes were ended."""
    if isinstance(found, Ended):
        return failed(ended_text(found), MACHINE, "once" if task.compiled_for else "each")
    return found
