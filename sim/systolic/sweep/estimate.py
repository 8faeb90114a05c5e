"""What an exploration would take: a few of its points are run for it, and nothing is stored."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from systolic.config import SweepPoint
from systolic.config.sweep import SweepSpace
from systolic.errors import SystolicError
from systolic.run.processes import Ended, as_finished
from systolic.sweep.rows import PointManner, PointTask, answer
from systolic.sweep.space import SweepFile

SAMPLE_POINTS, SAMPLE_SECONDS = 8, 20.0


@dataclass(frozen=True, slots=True)
class SweepEstimate:
    """points: of all sweeps. stored: of these. seconds_per_point, bytes_per_process: of a sample.

    sampled: how many points the sample has; with none of them the other two are None. seconds: of
    all that is not stored, on a number of processes at once.
    """

    points: int
    stored: int
    sampled: int
    seconds_per_point: float | None = None
    bytes_per_process: int | None = None
    seconds: float | None = None


def estimate(
    file: SweepFile, stored: frozenset[str], manner: PointManner, jobs: int
) -> SweepEstimate:
    """Return what exploring a file would take; stored: keys that need not be run.

    Of a search, whose points are not known, the sample is of its grid.
    """
    known = _known(file, stored)
    left = file.points - known
    if not left:
        return SweepEstimate(file.points, known, 0, seconds=0.0)
    found = list(_measured(file, stored, manner))
    if not found:
        return SweepEstimate(file.points, known, 0)
    mean = sum(seconds for seconds, _ in found) / len(found)
    most = max(size for _, size in found)
    return SweepEstimate(file.points, known, len(found), mean, most, left * mean / min(jobs, left))


def _known(file: SweepFile, stored: frozenset[str]) -> int:
    if not stored:
        return 0
    count = 0
    for space in file.spaces:
        if not space.is_search:
            count += sum(_key(file, space.point(n), space) in stored for n in range(space.size))
    return count


def _key(file: SweepFile, point: SweepPoint, space: SweepSpace) -> str:
    try:
        return file.resolved(point, space).key
    except SystolicError:
        return file.key_of_error(point)


def _measured(
    file: SweepFile, stored: frozenset[str], manner: PointManner
) -> Iterator[tuple[float, int]]:
    """Yield seconds and bytes of the points of a sample, for a while."""
    until = time.monotonic() + SAMPLE_SECONDS
    run = partial(_measure, manner=manner)
    with closing(as_finished(run, _sample(file, stored), jobs=1, apart=True)) as results:
        for pair in results:
            if pair is not None and not isinstance(pair[1], Ended):
                yield pair[1]
            if time.monotonic() > until:
                return


def _sample(file: SweepFile, stored: frozenset[str]) -> Iterator[PointTask]:
    draw, spaces = random.Random(0), [space for space in file.spaces if space.size]
    weights = [space.size for space in spaces]
    for _ in range(SAMPLE_POINTS):
        (space,) = draw.choices(spaces, weights)
        if space.is_search:
            point = space.combination(draw.randrange(space.combinations))
        else:
            point = space.point(draw.randrange(space.size))
        try:
            task = file.resolved(point, space)
        except SystolicError:
            continue
        if task.key not in stored:
            yield task


def _measure(task: PointTask, manner: PointManner) -> tuple[float, int]:
    began = time.monotonic()
    answer(task, manner)
    return time.monotonic() - began, _peak_bytes()


def _peak_bytes() -> int:
    """Return the most memory that this process has had; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # not a Unix
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
