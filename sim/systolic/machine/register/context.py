"""What all units of a register machine share: chip, ports, semaphores, memory planes, recorder."""

from __future__ import annotations

from dataclasses import dataclass, field

from systolic.hw.spec import Chip
from systolic.hw.units import dma_queue
from systolic.isa import Program
from systolic.machine.memory import Memory
from systolic.machine.register.dram.channels import DramChannels
from systolic.machine.register.fetch import Fetcher, Supply
from systolic.machine.register.planes import Planes
from systolic.machine.register.ports.ports import Ports
from systolic.machine.register.semaphores import Semaphores
from systolic.progress import Progress
from systolic.trace.recorder import Recorder


@dataclass
class Context:
    """The surroundings of a unit.

    retired: instructions done; end: the tick after the last completion; awake_changed: a unit fell
    asleep or woke since the machine last listed the units that are awake; dma_shares: by queue, the
    last cycle in which its copy held a share of its engine, and how many of DRAM; dma_engines: by
    queue, the engines that the copy is spread over; start: the tick from which its units are there.
    """

    chip: Chip
    program: Program
    recorder: Recorder
    ports: Ports
    semaphores: Semaphores
    planes: Planes
    posters: tuple[str, ...]
    queues: dict[str, list[int]]
    progress: Progress | None = None
    retired: int = 0
    start: int = 0
    end: int = 0
    awake_changed: bool = True
    dma_shares: dict[int, tuple[int, int]] = field(default_factory=dict)
    dma_engines: dict[int, frozenset[int]] = field(default_factory=dict)
    dram: DramChannels | None = None
    fetch: Supply | None = None

    @classmethod
    def of(
        cls,
        chip: Chip,
        program: Program,
        memory: Memory,
        recorder: Recorder,
        progress: Progress | None,
    ) -> Context:
        """Return the surroundings of a machine that is about to start."""
        queues = [dma_queue(number) for number in range(chip.dma.queues)]
        return cls(
            chip=chip,
            program=program,
            recorder=recorder,
            ports=Ports(chip),
            semaphores=Semaphores(len(program.semaphores), chip, recorder),
            planes=Planes(memory, program),
            posters=program.posters(),
            queues=program.queues(),
            progress=progress,
            dram=DramChannels(chip.dram, queues) if chip.dram.organisation else None,
            fetch=Fetcher(chip, chip.fetch, program, recorder) if chip.fetch else None,
        )

    def note_change_of_awake(self) -> None:
        """Let the machine list the units that are awake before its next cycle."""
        self.awake_changed = True

    def note_awake_listed(self) -> None:
        """The machine has listed the units that are awake."""
        self.awake_changed = False

    def retire(self, end: int) -> None:
        """Count an instruction whose last act ends at tick `end`."""
        self.retired += 1
        self.end = max(self.end, end)
        if self.progress is not None:
            self.progress(self.retired, len(self.program.instructions))
