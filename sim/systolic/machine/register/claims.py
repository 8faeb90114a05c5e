"""Labels of one unit, claimed cycle by cycle and merged into runs before they are recorded."""

from __future__ import annotations

from systolic.trace.records import Recorder


class Claims:
    """The open run of each label of a unit; cycles are the unit's own."""

    def __init__(self, recorder: Recorder, unit: str) -> None:
        self._recorder = recorder
        self._unit = unit
        self._open: dict[str, list[int]] = {}

    def mark(self, label: str, first: int, stop: int) -> None:
        """Claim first <= cycle < stop; calls for one label come in the order of `first`."""
        run = self._open.get(label)
        if run is not None and first <= run[1]:
            if stop > run[1]:
                run[1] = stop
            return
        if run is not None:
            self._recorder.claim(self._unit, label, *run)
        self._open[label] = [first, stop]

    def flush(self) -> None:
        """Record every open run."""
        for label, run in self._open.items():
            self._recorder.claim(self._unit, label, *run)
        self._open.clear()
