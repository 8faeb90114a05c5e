"""A function of many items in several processes of this computer.

A process that is ended from outside takes no result with it but its own: the others go on, and what
it was at is tried again in a new one. Not here: what an item is (a point of a sweep, a run with its
pin). Nothing is printed.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Generic, TypeVar

import systolic
from systolic.errors import SystolicError
from systolic.run.batches import Entry, ItemBatches

Item = TypeVar("Item")
Found = TypeVar("Found")

BATCH_SECONDS = 0.25
TICK_SECONDS = 0.1
IN_HAND = 2
"""ItemBatches of a process: the one it is at, and one that it takes up without a wait."""
GARBAGE_THRESHOLD = 200_000
"""As on the command line (`systolic.cli.screen`): a run makes many objects, few in cycles."""
PRELOADED = ["systolic.run.execute", "systolic.machine.event"]


@dataclass(frozen=True, slots=True)
class Ended:
    """In place of a result: processes were ended from outside while they were at an item."""

    times: int


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
        SystolicError: the process of an item was ended from outside twice.

    """
    waiting: dict[int, Found] = {}
    due = 0
    try:
        for pair in as_finished(partial(_second, function), enumerate(items), jobs=jobs):
            if pair is None:
                continue
            (number, _), found = pair
            waiting[number] = require_not_ended(found, noun)
            while due in waiting:
                yield waiting.pop(due)
                due += 1
    except KeyboardInterrupt:
        yield from (waiting[number] for number in sorted(waiting))
        raise


def _second(function: Callable[[Item], Found], pair: tuple[int, Item]) -> Found:
    return function(pair[1])


def require_not_ended(found: Found | Ended, noun: str) -> Found:
    """Return a result; SystolicError if the processes that were to give it were ended."""
    if isinstance(found, Ended):
        raise SystolicError(
            f"the process that ran a {noun} was ended from outside {found.times} times (too "
            "little memory?); fewer at once need less",
            setting="jobs",
        )
    return found


def as_finished(
    function: Callable[[Item], Found], items: Iterable[Item], *, jobs: int, apart: bool = False
) -> Generator[tuple[Item, Found | Ended] | None, None, None]:
    """Yield items with the function of each, as they are done; None when a moment has passed.

    Args:
        function: a function of a module, which other processes can import, or a `partial` of one.
        items: what it is called with. An item is taken only when a process is about to be free, so
            that later items can depend on what the earlier ones gave.
        jobs: how many calls run at once, each in a process of its own.
        apart: False: of 1 job, the calls are made in this process.

    Raises:
        KeyboardInterrupt: after all processes have ended and all finished results were yielded.

    """
    if jobs > 1 or apart:
        yield from _Pool(function, items, jobs).results()
        return
    for item in items:
        yield item, function(item)


@dataclass(eq=False)
class _Worker(Generic[Item, Found]):
    """A process that is given batches, and the batches that it has."""

    function: Callable[[Item], Found]
    context: BaseContext
    batches: deque[tuple[Future[tuple[list[Found], float]], list[Entry[Item]]]] = field(
        default_factory=deque
    )
    executor: ProcessPoolExecutor | None = None

    def give(self, batch: list[Entry[Item]]) -> None:
        """Hand the process a batch; it is started with the first."""
        if self.executor is None:
            self.executor = ProcessPoolExecutor(1, self.context, initializer=_begin)
        items = [entry.item for entry in batch]
        try:
            future = self.executor.submit(_all, self.function, items)
        except BrokenProcessPool as error:  # it has ended since; its results will say so
            future = Future()
            future.set_exception(error)
        self.batches.append((future, batch))

    def let_go(self) -> list[list[Entry[Item]]]:
        """Forget a process that has ended; return its batches: it was at the first of them."""
        left = [batch for _, batch in self.batches]
        self.batches.clear()
        if self.executor is not None:
            self.executor.shutdown(wait=False)
            self.executor = None
        return left


class _Pool(Generic[Item, Found]):
    """Several processes of one worker each, so that the end of one is no matter to the others."""

    def __init__(self, function: Callable[[Item], Found], items: Iterable[Item], jobs: int) -> None:
        self._batches = ItemBatches(items, BATCH_SECONDS)
        context = _context()
        self._workers = [_Worker[Item, Found](function, context) for _ in range(jobs)]

    def results(self) -> Generator[tuple[Item, Found | Ended] | None, None, None]:
        others = multiprocessing.active_children()
        try:
            # The processes inherit this, so that Ctrl-C reaches the parent alone.
            with _interrupts_held_back():
                self._hand_out()
            while futures := [future for w in self._workers for future, _ in w.batches]:
                wait(futures, TICK_SECONDS, FIRST_COMPLETED)
                found = [pair for worker in self._workers for pair in self._finished(worker)]
                yield from found or (None,)
                with _interrupts_held_back():
                    self._hand_out()
        except KeyboardInterrupt:
            finished = [pair for worker in self._workers for pair in self._finished(worker)]
            _end(others)
            yield from finished
            raise
        finally:
            _end(others)
            for worker in self._workers:
                worker.let_go()

    def _hand_out(self) -> None:
        """Give every process what it has in hand; first one batch each, then further ones."""
        for most in range(1, IN_HAND + 1):
            for worker in self._workers:
                while len(worker.batches) < most and (batch := self._batches.take()):
                    worker.give(batch)

    def _finished(self, worker: _Worker[Item, Found]) -> Iterator[tuple[Item, Found | Ended]]:
        """Yield what a process has done, in order; take back what it had if it has ended."""
        while worker.batches and worker.batches[0][0].done():
            future, batch = worker.batches[0]
            if future.cancelled():
                return
            try:
                results, seconds = future.result()
            except BrokenProcessPool:
                first, *rest = worker.let_go()
                for left in rest:
                    self._batches.not_begun(left)
                for entry in self._batches.ended(first):
                    yield entry.item, Ended(entry.ends)
                return
            worker.batches.popleft()
            self._batches.done(batch, seconds)
            for entry, found in zip(batch, results, strict=True):
                yield entry.item, found


def _all(function: Callable[[Item], Found], items: Sequence[Item]) -> tuple[list[Found], float]:
    """Return the function of every item, and the seconds that this took."""
    began = time.monotonic()
    return [function(item) for item in items], time.monotonic() - began


def _context() -> BaseContext:
    """Return how processes are started: forked from one that has imported what they need.

    That one has no threads, so that a copy of it cannot hang. Where there is none, a process starts
    anew.
    """
    # A process runs one item at a time: threads of a numerical library would only be in the way.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with _this_package_first(), _interrupts_held_back():
        forkserver.ensure_running()
    return context


@contextmanager
def _this_package_first() -> Iterator[None]:
    """Let a process that is started import the package that runs here, and no other of the name."""
    before = os.environ.get("PYTHONPATH")
    root = str(Path(systolic.__file__).resolve().parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([root, before] if before else [root])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _end(others: Sequence[BaseProcess]) -> None:
    """End the pool's processes at once, but not the `others` that this process started before."""
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


def _begin() -> None:
    """Make a new process fit for its work, and let it end when its parent ends, even if killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(GARBAGE_THRESHOLD)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
