"""What a view is given: the summary of a run, or a whole run with the names of what it numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from systolic.hw.spec import Chip
from systolic.spans import Interval
from systolic.trace.exports.observed import Observed
from systolic.trace.records import Trace


class Touch(NamedTuple):
    """An instruction reads or writes a box of a buffer.

    buffer: "state_buffer", "result_buffer" or "dram". bytes: from the first byte to behind the last
    in each partition. size_bytes: of all elements, a repeated one's too.
    """

    instruction: int
    buffer: str
    is_write: bool
    partitions: Interval
    bytes: Interval
    size_bytes: int


class Multiply(NamedTuple):
    """The PEs that a multiply keeps busy, for how many vectors, and cycles of each vector.

    needed: multiply-adds of it that the work needs; None if the work is a program, which does not
    say it. is_turn: it multiplies by the identity, which turns a matrix and is needed by none.
    """

    instruction: int
    pes: int
    vectors: int
    vector_cycles: int
    needed: float | None = None
    is_turn: bool = False


class Life(NamedTuple):
    """Bytes of the state buffer hold what one instruction wrote, from tick `first` to `stop`.

    writer: the instruction; -1 for what lay there at cycle 0. partitions, bytes: the box around
    the `size_bytes` bytes. It ends with its last read, or where it is
    overwritten unread; what nothing reads or overwrites stays to the end of the run.
    """

    writer: int
    partitions: Interval
    bytes: Interval
    size_bytes: int
    first: int
    stop: int


class WayUse(NamedTuple):
    """A copy moves bytes over a link, or through a controller, from tick `first` to `stop`."""

    name: str
    first: int
    stop: int
    size_bytes: int


@dataclass(frozen=True, eq=False)
class ChipUse:
    """How a chip of several cores was used.

    cores: by core the ticks of each state (`systolic.report.summary.cores`). uses: of links and
    controllers. capacity: bytes in a tick of each of these, in the order in which they are shown.
    """

    cores: Mapping[str, Mapping[str, Sequence[tuple[int, int]]]]
    uses: Sequence[WayUse]
    capacity: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class PlotSummary:
    """The summary of a run, and its chip; None if the summary has none."""

    summary: Mapping[str, Any]
    chip: Chip | None


@dataclass(frozen=True, eq=False)
class PlotRun(PlotSummary):
    """A finished run.

    touches, multiplies, lives: what its instructions do, told only for the views that show it.
    chip_use: how cores, links and controllers were used; None on a chip of one core.
    """

    chip: Chip
    observed: Observed
    touches: Callable[[], Sequence[Touch]]
    multiplies: Callable[[], Sequence[Multiply]]
    lives: Callable[[], Sequence[Life]]
    chip_use: Callable[[], ChipUse] | None = None

    @property
    def trace(self) -> Trace:
        """Return the records of the run."""
        return self.observed.trace

    @property
    def period(self) -> int:
        """Return a cycle of the array in ticks."""
        return self.trace.periods[self.trace.array]
