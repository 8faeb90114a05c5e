"""What an engine's instruction does in each of its steps, listed before it starts.

A step takes a cycle in which it is not held back: it reads elements of one operand or of two, and
may complete elements of the target, which are written some steps later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from systolic.isa import Access, OnEngine, Pool
from systolic.isa.effects import reads_per_element, reads_per_lane, writes
from systolic.machine.register.ports import Lanes, Ports, PortTuple

Wanted = tuple[int, Lanes]
"""A port, and the partitions it is wanted for."""


@dataclass(slots=True)
class Step:
    """reads: (operand, its elements); outputs: elements of the target complete after the step.

    read_ports, write_ports: needed to read, and later to write the outputs.
    """

    reads: list[tuple[int, slice]] = field(default_factory=list)
    read_ports: list[Wanted] = field(default_factory=list)
    outputs: slice | None = None
    write_ports: list[Wanted] = field(default_factory=list)

    def read(self, operand: int, part: slice, ports: PortTuple, lanes: Lanes) -> None:
        """Let the step read some elements of an operand."""
        self.reads.append((operand, part))
        self.read_ports += [(port, lanes) for port in ports]

    def collides(self, ports: PortTuple, lanes: Lanes) -> bool:
        """Return whether the step already wants one of the ports for one of the lanes."""
        return any(
            port in ports and low < lanes[1] and lanes[0] < high
            for port, (low, high) in self.read_ports
        )


def lanes_of(access: Access) -> Lanes:
    """Return the partitions of an access, first and after the last."""
    return access.partition, access.partition + access.partitions


def steps_of(instruction: OnEngine, rate: int, ports: Ports) -> list[Step]:
    """Return all steps; operands are numbered, those of one element per lane first."""
    steps: list[Step] = []
    per_lane = reads_per_lane(instruction)
    for number, access in enumerate(per_lane):
        step = Step()
        step.read(number, slice(0, 1), ports.of_groups(access, "read", 1)[0], lanes_of(access))
        steps.append(step)
    operands = reads_per_element(instruction)
    wanted = [ports.of_groups(access, "read", rate) for access in operands]
    (target,) = writes(instruction)
    window = instruction.window if isinstance(instruction, Pool) else 1
    elements = target.elements * window
    for group, first in enumerate(range(0, elements, rate)):
        part = slice(first, min(first + rate, elements))
        steps.append(Step())
        for number, access in enumerate(operands):
            if steps[-1].collides(wanted[number][group], lanes_of(access)):
                steps.append(Step())
            steps[-1].read(len(per_lane) + number, part, wanted[number][group], lanes_of(access))
        if part.stop // window > part.start // window:
            steps[-1].outputs = slice(part.start // window, part.stop // window)
    _add_write_ports(steps, target, ports)
    return steps


def _add_write_ports(steps: list[Step], target: Access, ports: Ports) -> None:
    by_element, lanes = ports.of_groups(target, "write", 1), lanes_of(target)
    for step in steps:
        if step.outputs is not None:
            found = sorted({port for near in by_element[step.outputs] for port in near})
            step.write_ports = [(port, lanes) for port in found]
