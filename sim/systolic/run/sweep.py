"""The points of a sweep, run one after another or in several processes; each gives a row.

A row is a plain dict. It has the keys `sweep` and `vary`, and either the summary of the run with
the `utilisation` of its array, or `error`. Nothing is printed or written here.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any

from systolic.config import SweepPoint
from systolic.errors import SystolicError
from systolic.report.sweeps.pairs import PointRow
from systolic.run.execute import run
from systolic.run.provenance import plain
from systolic.run.utilisation import array_utilisation


def sweep_rows(
    points: Sequence[SweepPoint], *, jobs: int = 1, values: bool = True
) -> Generator[PointRow, None, None]:
    """Yield the row of every point, in the order of the points, for any number of `jobs`.

    Args:
        points: the points that `systolic.config.expand` gives.
        jobs: how many points run at once, each in a process of its own. 1: all in this process.
        values: False: times only.

    Raises:
        KeyboardInterrupt: after all processes have ended and all finished rows were yielded.
        SystolicError: a process was ended from outside.

    """
    if min(jobs, len(points)) > 1:
        yield from _parallel_rows(points, min(jobs, len(points)), values)
        return
    for point in points:
        yield point_row(point, values)


def point_row(point: SweepPoint, values: bool) -> PointRow:
    """Return the row of one point; if the point cannot be run, the row has the error."""
    row: dict[str, Any] = {"sweep": point.sweep, "vary": plain(point.varied)}
    try:
        result = run(point.config, values=values)
    except SystolicError as error:
        return {**row, "error": str(error)}
    except MemoryError:
        return {**row, "error": "this computer has too little memory for this"}
    except Exception as error:
        if os.environ.get("SYSTOLIC_DEBUG") == "1":
            raise
        return {**row, "error": f"a bug in systolic: {type(error).__name__}: {error}"}
    used = array_utilisation(result.program, result.chip, result.cycles)
    return {**row, **result.summary, "utilisation": used}


# -- several processes ----------------------------------------------------------------------------


def _parallel_rows(points: Sequence[SweepPoint], jobs: int, values: bool) -> Iterator[PointRow]:
    # "spawn" on every system: a forked copy of a process with threads can hang.
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(jobs, context, initializer=_follow_parent) as pool:
        # The processes inherit this, so that Ctrl-C reaches the parent alone.
        with _interrupts_held_back():
            futures = [pool.submit(point_row, point, values) for point in points]
        done = 0
        try:
            for future in futures:
                yield future.result()
                done += 1
        except KeyboardInterrupt:
            finished = [f for f in futures[done:] if _is_finished(f)]
            _end(pool, others)
            yield from (future.result() for future in finished)
            raise
        except BrokenProcessPool:
            raise SystolicError(
                f"a process that ran a point was ended from outside after {done} of {len(points)} "
                "points (too little memory?); fewer at once need less",
                setting="jobs",
            ) from None
        except BaseException:
            _end(pool, others)
            raise


def _is_finished(future: Future[PointRow]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _end(pool: ProcessPoolExecutor, others: Sequence[BaseProcess]) -> None:
    """End the pool's processes at once, but not the `others` that this process started before."""
    pool.shutdown(wait=False, cancel_futures=True)
    for process in multiprocessing.active_children():
        if process not in others:
            process.terminate()


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold Ctrl-C back for a moment; a Ctrl-C in the meantime takes effect afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_parent() -> None:
    """Let this process end when its parent ends, even if the parent is killed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
