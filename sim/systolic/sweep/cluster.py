"""Points on a Dask cluster, wherever it runs: SLURM and Kubernetes by Dask's own launchers.

The client hands each worker a few batches, by name, so that it knows what a worker had when it is
gone: what it was at is tried again item by item (`systolic.run.batches`), the rest goes to others.
Results are fetched as they come, and kept nowhere on the cluster. A worker runs one point at a
time, whatever its number of threads, because a point is work of one core.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from systolic import __version__
from systolic.errors import SystolicError
from systolic.run.batches import Entry, ItemBatches
from systolic.run.processes import Ended
from systolic.sweep.extras import needed
from systolic.sweep.key import TIMING_VERSION
from systolic.sweep.local import answer_of
from systolic.sweep.rows import Answer, PointManner, PointTask, answer

BATCH_SECONDS, WINDOW = 2.5, 4
"""A batch of 50 ms points has 50 of them; a worker has four batches at most."""
TICK_SECONDS, CONNECT_SECONDS, LOOK_SECONDS = 0.1, 10.0, 1.0
PACKAGE = "systolic"
VERSION = (__version__, TIMING_VERSION)

_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class _OtherVersion:
    """What a worker of another version answers."""

    version: tuple[str, int]


def run_batch(data: bytes, version: tuple[str, int]) -> tuple[list[Answer], float] | _OtherVersion:
    """Run a batch on a worker; return its answers and the seconds that they took."""
    if version != VERSION:
        return _OtherVersion(VERSION)
    tasks, manner = pickle.loads(data)  # of the client's own, by the cluster's own protocol
    with _one_at_a_time:
        began = time.monotonic()
        return [answer(task, manner) for task in tasks], time.monotonic() - began


@dataclass(eq=False, slots=True)
class _Batch:
    """A batch that a worker has. place: of all batches handed out, so the oldest has the least."""

    place: int
    entries: list[Entry[PointTask]]
    worker: str
    future: Any


@dataclass(frozen=True, slots=True)
class ClusterScheduler:
    """Runs points on the cluster whose scheduler has an address such as tcp://host:8786."""

    address: str
    manner: PointManner

    def answers(
        self, tasks: Iterable[PointTask]
    ) -> Generator[tuple[PointTask, Answer] | None, None, None]:
        """Yield tasks with their answers as they are done; None when a moment has passed.

        Raises:
            SystolicError: there is no scheduler, it has gone, or it or a worker is of another
                version.

        """
        with _silence():
            client = _connected(self.address)
            try:
                _require_same_versions(client, self.address)
                yield from _Run(client, self.address, self.manner, tasks).answers()
            finally:
                _close(client)


@dataclass(eq=False)
class _Run:
    """The batches of one exploration on a cluster."""

    client: Any
    address: str
    manner: PointManner
    tasks: Iterable[PointTask]
    _handed: dict[str, _Batch] = field(default_factory=dict)
    _threads: Mapping[str, int] = field(default_factory=dict)
    _place: int = 0

    def answers(self) -> Iterator[tuple[PointTask, Answer] | None]:
        batches: ItemBatches[PointTask] = ItemBatches(self.tasks, BATCH_SECONDS)
        finished = needed("distributed", "a cluster").as_completed(loop=self.client.loop)
        look_due = 0.0
        while True:
            if time.monotonic() >= look_due:
                yield from self._look(batches)
                look_due = time.monotonic() + LOOK_SECONDS
            has_more = self._hand_out(batches, finished)
            if not has_more and not self._handed:
                return
            found = list(self._taken(batches, finished))
            yield from found or (None,)

    def _look(self, batches: ItemBatches[PointTask]) -> Iterator[tuple[PointTask, Answer]]:
        """See which workers there are; take back the batches of those that have gone."""
        self._threads = self._reached(self.client.nthreads)
        gone = {b.worker for b in self._handed.values()} - self._threads.keys()
        for worker in gone:
            had = sorted(
                (b for b in self._handed.values() if b.worker == worker), key=lambda b: b.place
            )
            for batch in had:
                del self._handed[batch.future.key]
                batch.future.cancel(force=True)
            # It runs one at a time in the order in which it was given them.
            for batch in had[1:]:
                batches.not_begun(batch.entries)
            for entry in batches.ended(had[0].entries):
                yield entry.item, answer_of(entry.item, Ended(entry.ends))

    def _hand_out(self, batches: ItemBatches[PointTask], finished: Any) -> bool:
        """Fill the windows of all workers, first those that have least; False if none is left."""
        load = dict.fromkeys(self._threads, 0)
        for batch in self._handed.values():
            load[batch.worker] = load.get(batch.worker, 0) + 1
        for most in range(1, WINDOW + 1):
            for worker in load:
                if load[worker] < most and worker in self._threads:
                    entries = batches.take()
                    if not entries:
                        return False
                    self._hand(entries, worker, finished)
                    load[worker] += 1
        return True

    def _hand(self, entries: list[Entry[PointTask]], worker: str, finished: Any) -> None:
        data = pickle.dumps(([entry.item for entry in entries], self.manner), protocol=5)
        self._place += 1
        future = self._reached(
            self.client.submit,
            run_batch,
            data,
            VERSION,
            pure=False,
            workers=[worker],
            allow_other_workers=False,
            retries=0,
        )
        self._handed[future.key] = _Batch(self._place, entries, worker, future)
        finished.add(future)

    def _taken(
        self, batches: ItemBatches[PointTask], finished: Any
    ) -> Iterator[tuple[PointTask, Answer]]:
        """Yield what has been done since, after a short wait for it."""
        with finished.thread_condition:
            if not finished.has_ready():
                finished.thread_condition.wait(TICK_SECONDS)
        for future in finished.next_batch(block=False):
            batch = self._handed.pop(future.key, None)
            if batch is None:  # of a worker that has gone since
                continue
            try:
                yield from self._answers_of(batch, batches)
            except TimeoutError:  # its worker has gone with the results
                self._handed[future.key] = batch
                finished.add(future)

    def _answers_of(
        self, batch: _Batch, batches: ItemBatches[PointTask]
    ) -> Iterator[tuple[PointTask, Answer]]:
        if batch.future.status == "cancelled":
            batches.not_begun(batch.entries)
            return
        try:
            found = batch.future.result(timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise
        except Exception as error:
            if self.client.status != "running":
                raise _gone(self.address) from None
            if type(error).__name__ == "KilledWorker":
                for entry in batches.ended(batch.entries):
                    yield entry.item, answer_of(entry.item, Ended(entry.ends))
                return
            raise SystolicError(
                f"{self.address}: worker {batch.worker}: {type(error).__name__}: {error}"
            ) from None
        if isinstance(found, _OtherVersion):
            raise _other_version(self.address, f"worker {batch.worker}", found.version)
        answers, seconds = found
        batches.done(batch.entries, seconds)
        for entry, given in zip(batch.entries, answers, strict=True):
            yield entry.item, given

    def _reached(self, call: Any, *arguments: Any, **named: Any) -> Any:
        """Call a function that asks the scheduler; SystolicError if it has gone."""
        if self.client.status != "running":
            raise _gone(self.address)
        try:
            return call(*arguments, **named)
        except (OSError, TimeoutError, RuntimeError):
            raise _gone(self.address) from None


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Dask from logging: what is wrong is said once, by an error."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _gone(address: str) -> SystolicError:
    return SystolicError(
        f"{address}: the scheduler has gone; what is stored is kept, and the next start goes on"
    )


def _connected(address: str) -> Any:
    """Return a client of a scheduler; SystolicError if there is none at the address."""
    distributed = needed("distributed", "a cluster")
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SystolicError(f"{address}: there is no Dask scheduler ({reason})") from None


def _close(client: Any) -> None:
    try:
        client.close(timeout=2)
    except Exception:  # the scheduler may have gone
        return


def own_version() -> tuple[str, int]:
    """Return the version of this package and of its timing rules, where this is called."""
    return VERSION


def _require_same_versions(client: Any, address: str) -> None:
    """Raise SystolicError if the scheduler or a worker has another version of this package.

    A scheduler without this package is as good: it runs nothing of it.
    """
    for worker, found in client.run(own_version, on_error="return").items():
        _require(found, address, f"worker {worker}")
    try:
        found = client.run_on_scheduler(own_version)
    except ModuleNotFoundError as error:
        if error.name == PACKAGE:
            return
        found = error
    except Exception as error:  # such as an attribute that another version lacks
        found = error
    _require(found, address, "the scheduler")


def _require(found: Any, address: str, place: str) -> None:
    if isinstance(found, ModuleNotFoundError) and found.name == PACKAGE:
        raise SystolicError(f"{address}: {place} has no systolic; needed systolic {__version__}")
    if found != VERSION:
        raise _other_version(address, place, found)


def _other_version(address: str, place: str, found: Any) -> SystolicError:
    has = "another version of systolic"
    if isinstance(found, tuple | list):
        version, timing = found
        has = f"systolic {version} (timing rules {timing})"
    return SystolicError(
        f"{address}: {place} has {has}, and this client systolic {__version__} (timing rules "
        f"{TIMING_VERSION}): needed the same on both"
    )
