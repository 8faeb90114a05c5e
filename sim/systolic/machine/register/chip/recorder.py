"""What a core or a processor records, under the names and numbers that it has on the chip."""

from __future__ import annotations

from dataclasses import replace

from systolic.hw.spec.places import OWN, ChipPlace, joined
from systolic.trace.recorder import Recorder
from systolic.trace.records import FetchTimes, InstructionTimes, Stall
from systolic.trace.words import Words

STALLED = "stalled by "


class PlacedRecorder(Recorder):
    """A recorder of one launch, which hands everything on to the chip's recorder.

    place: whose units record. first: the number of the launch's first instruction. winners: the
    place of what wins a port, "" where the unit names it in full.
    """

    def __init__(
        self, whole: Recorder, place: ChipPlace, first: int, *, names_winners: bool
    ) -> None:
        super().__init__(whole.units, whole.kinds, whole.keep_grid)
        self._whole, self._place, self._first = whole, str(place), first
        self.place = str(place)
        self._winners = OWN if names_winners else str(place)
        self.transfers = whole.transfers

    def words(self, kind: str, unit: str, instruction: int, words: Words) -> None:
        """Record words if that kind is wanted."""
        self._whole.words(kind, self._named(unit), instruction + self._first, words)

    def post(self, tick: int, unit: str, semaphore: int) -> None:
        """Record a post made in the cycle of `unit` that begins at `tick`."""
        self._whole.post(tick, self._named(unit), semaphore)

    def wait(self, tick: int, unit: str, semaphore: int, value: int) -> None:
        """Record a wait satisfied by an instruction that starts at `tick`."""
        self._whole.wait(tick, self._named(unit), semaphore, value)

    def claim(self, unit: str, label: str, first: int, stop: int, order: int = 0) -> None:
        """Claim a label for cycles first <= cycle < stop of the unit."""
        if label.startswith(STALLED):
            label = STALLED + self._won(label.removeprefix(STALLED))
        self._whole.claim(self._named(unit), label, first, stop, order)

    def hand_on(self) -> None:
        """Hand on what units put into lists."""
        whole, first = self._whole, self._first
        for load in self.loads:
            whole.loads.append(replace(load, instruction=load.instruction + first))
        for multiply in self.matmuls:
            whole.matmuls.append(replace(multiply, instruction=multiply.instruction + first))
        for times in self.times:
            whole.times.append(
                InstructionTimes(times[0] + first, self._named(times.unit), *times[2:])
            )
        for stall in self.stalls:
            whole.stalls.append(self._placed(stall))
        for fetch in self.fetches:
            number, unit = fetch.instruction + first, self._named(fetch.unit)
            whole.fetches.append(FetchTimes(fetch.begin, number, unit, fetch.arrival))

    def _placed(self, stall: Stall) -> Stall:
        buffer = joined(self._winners, stall.buffer) if self._winners else stall.buffer
        return stall._replace(
            unit=self._named(stall.unit),
            instruction=stall.instruction + self._first,
            buffer=buffer,
            winner=self._won(stall.winner),
        )

    def _named(self, unit: str) -> str:
        return joined(self._place, unit)

    def _won(self, winner: str) -> str:
        return joined(self._winners, winner) if self._winners else winner
