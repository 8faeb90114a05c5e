"""How a run is done: engine, values or times only, records to keep, and whether lint runs first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from systolic.engine_kind import ENGINE_KINDS, EngineKind
from systolic.errors import SystolicError, listed, perhaps
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.machine import Image, Outcome, simulate
from systolic.progress import Progress
from systolic.trace.words import KINDS

if TYPE_CHECKING:  # most runs do without file forms
    from systolic.isa import ChipModule, Program
    from systolic.machine.simulate_chip import ChipOutcome


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run is done; the docstring of `systolic.run.run` describes each field."""

    engine: EngineKind = "event"
    values: bool = True
    kinds: Collection[str] = ()
    grid: bool = False
    progress: Progress | None = None
    check: bool = True

    def __post_init__(self) -> None:
        require_known("engine", self.engine, ENGINE_KINDS)
        for kind in self.kinds:
            require_known("kinds", kind, KINDS)

    def simulate(self, chip: Chip, program: Program, images: Sequence[Image]) -> Outcome:
        """Run a program on a chip as the settings say; images: what the memories hold at first."""
        return simulate(
            chip,
            program,
            images,
            engine=self.engine,
            kinds=self.kinds,
            grid=self.grid,
            values=self.values,
            progress=self.progress,
        )

    def simulate_chip(
        self, chip: MultiCoreChip, module: ChipModule, images: Mapping[str, Sequence[Image]]
    ) -> ChipOutcome:
        """Run a program of several cores likewise; images: by core, what its memories hold."""
        from systolic.machine.simulate_chip import simulate_chip

        return simulate_chip(
            chip,
            module,
            images,
            engine=self.engine,
            kinds=self.kinds,
            grid=self.grid,
            values=self.values,
            progress=self.progress,
        )


def require_known(what: str, found: str, known: Collection[str]) -> None:
    """Raise SystolicError, with all that are known, for a word that is none of them."""
    if found not in known:
        names = listed(f'"{name}"' for name in known)
        raise SystolicError(f'{what}: needs one of {names}, found "{found}"{perhaps(found, known)}')
