"""An arbiter that never refuses a port: what a run would take if none was ever contended."""

from __future__ import annotations

from systolic.machine.event.ports.arbiter import Arbiter
from systolic.machine.event.ports.stream import Stream


class FreePorts(Arbiter):
    """Every stream goes on as if it were alone; bandwidths are shared all the same."""

    def _find_contended(self) -> set[Stream]:
        """Return no stream: none need be decided between, nor settle that among themselves."""
        for stream in self._streams:
            stream.settle_ports(among_themselves=False)
        return set()
