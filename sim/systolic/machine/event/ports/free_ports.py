"""An arbiter that never refuses a port: what a run would take if none was ever contended."""

from __future__ import annotations

from collections.abc import Iterable

from systolic.machine.event.ports.arbiter import Arbiter
from systolic.machine.event.ports.stream import Stream


class FreePorts(Arbiter):
    """Every stream goes on as if it were alone; bandwidths are shared all the same."""

    def _are_related(self, one: Stream, other: Stream) -> bool:
        """Return that no streams meet: only how far bursts come depends on others."""
        return one.settles_ports and other.settles_ports

    def _is_held(self, mask: int) -> bool:
        """Return that no sums are in the way."""
        return False

    def _let_settle(self, streams: Iterable[Stream], *, among_themselves: bool) -> None:
        """Tell streams that may settle which of them has a port that they need not."""
        super()._let_settle(streams, among_themselves=False)
