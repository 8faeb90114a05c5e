"""A function of many items in several processes; the results come in the order of the items.

Not here: what an item is (a point of a sweep, a run with its pin). Nothing is printed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import TypeVar

from systolic.errors import SystolicError

Item = TypeVar("Item")
Found = TypeVar("Found")


def in_order(
    function: Callable[[Item], Found], items: Sequence[Item], *, jobs: int, noun: str
) -> Generator[Found, None, None]:
    """Yield the function of every item, in the order of the items, for any number of `jobs`.

    Args:
        function: a function of a module, which other processes can import, or a `partial` of one.
        items: what it is called with.
        jobs: how many calls run at once, each in a process of its own. 1: all in this process.
        noun: what an item is called in an error, such as "point".

    Raises:
        KeyboardInterrupt: after all processes have ended and all finished results were yielded.
        SystolicError: a process was ended from outside.

    """
    if min(jobs, len(items)) > 1:
        yield from _parallel(function, items, min(jobs, len(items)), noun)
        return
    for item in items:
        yield function(item)


def _parallel(
    function: Callable[[Item], Found], items: Sequence[Item], jobs: int, noun: str
) -> Iterator[Found]:
    # "spawn" on every system: a forked copy of a process with threads can hang.
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(jobs, context, initializer=_follow_parent) as pool:
        # The processes inherit this, so that Ctrl-C reaches the parent alone.
        with _interrupts_held_back():
            futures = [pool.submit(function, item) for item in items]
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
                f"a process that ran a {noun} was ended from outside after {done} of {len(items)} "
                f"{noun}s (too little memory?); fewer at once need less",
                setting="jobs",
            ) from None
        except BaseException:
            _end(pool, others)
            raise


def _is_finished(future: Future[Found]) -> bool:
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
