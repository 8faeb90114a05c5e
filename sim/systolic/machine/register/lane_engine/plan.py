"""Twin of `event.lane_engine.plan`: the steps of an engine's instruction, listed in advance.

A step takes a cycle in which it is not held back: it reads elements of one operand or of two, and
may complete elements of the target, which are written some steps later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from systolic.isa import Access, OnEngine
from systolic.isa.effects import (
    block,
    reads_beside,
    reads_per_element,
    reads_per_lane,
    results_per_lane,
    rhythm,
    scales_of,
    target_of,
)
from systolic.isa.opcodes import Rhythm, require_rows
from systolic.isa.scales import GROUP_ELEMENTS
from systolic.machine.register.lane_engine.rate import GroupRate
from systolic.machine.register.ports.ports import Ports, PortTuple, Wanted, wanted
from systolic.spans import Interval


@dataclass(slots=True)
class Step:
    """reads: (operand, its elements); outputs: elements of the target complete after the step.

    result: the number of a result of few elements per lane, and the number of its element, which is
    complete after the step. scales: of the groups whose last elements are among the outputs.
    read_ports, write_ports: needed to read, and later to write outputs or result. is_behind: the
    last element has been read before; the engine can take the next instruction.
    """

    reads: list[tuple[int, slice]] = field(default_factory=list)
    read_ports: list[Wanted] = field(default_factory=list)
    outputs: slice | None = None
    result: tuple[int, int] | None = None
    scales: slice | None = None
    is_behind: bool = False
    write_ports: list[Wanted] = field(default_factory=list)

    def read(self, operand: int, part: slice, ports: PortTuple, lanes: Interval) -> None:
        """Let the step read some elements of an operand."""
        self.reads.append((operand, part))
        self.read_ports += wanted(ports, lanes)

    def collides(self, ports: PortTuple, lanes: Interval) -> bool:
        """Return whether the step already wants one of the ports for one of the lanes."""
        return any(port in ports and lanes.meets(other) for port, other in self.read_ports)


def steps_of(instruction: OnEngine, rate: GroupRate, ports: Ports) -> list[Step]:
    """Return all steps; operands are numbered, operands of one element per lane first.

    Behind them comes what is read beside the first elements of the others.
    """
    per_lane, few = reads_per_lane(instruction), reads_beside(instruction)
    steps = [_of_one_element(number, access, ports) for number, access in enumerate(per_lane)]
    operands = [
        _Grouped(number, access, ports.of_groups(access, "read", rate.elements))
        for number, access in enumerate((*few, *reads_per_element(instruction)), len(per_lane))
    ]
    target = target_of(instruction)
    read, made = block(instruction)
    elements = target.elements // made * read
    complete = [0] * len(steps)
    most_elements = max(elements, *(access.elements for access in few)) if few else elements
    for group, first in enumerate(range(0, most_elements, rate.elements)):
        part = slice(min(first, elements), min(first + rate.elements, elements))
        reading = _of_a_group(operands, group, rate.elements)
        steps += [Step() for _ in range(rate.steps_of(group) - len(reading))] + reading
        complete += [part.start // read * made] * (len(steps) - len(complete) - 1)
        complete.append(part.stop // read * made)
    if few:
        waiting = _steps_before_all_is_read(steps, operands[: len(few)])
        complete[:waiting] = [0] * waiting
    most = _MOST[rhythm(instruction)](made, rate.elements)
    _add_outputs(steps, complete, most)
    _add_write_ports(steps, target, ports)
    if (scales := scales_of(instruction)) is not None:
        _add_scales(steps, scales, ports)
    for number, access in enumerate(results_per_lane(instruction)):
        for element, near in enumerate(ports.of_groups(access, "write", 1)):
            of_ports = [*wanted(near, access.lanes)]
            steps.append(Step(result=(number, element), write_ports=of_ports, is_behind=True))
    return steps


def _steps_before_all_is_read(steps: list[Step], few: list[_Grouped]) -> int:
    """Return how many steps come before the one that reads the last of these operands."""
    numbers = {operand.number for operand in few}
    return max(n for n, step in enumerate(steps) if any(o in numbers for o, _ in step.reads))


def _add_outputs(steps: list[Step], complete: list[int], most: Callable[[int], int]) -> None:
    """Let steps complete elements of the target in their order; add steps for what is left.

    complete: after each step, how many elements of the target have all that they are made of.
    most: how many of them a step can take, by the number of those before.
    """
    done = 0
    for step, ready in zip(steps, complete, strict=True):
        done = _add_output(step, done, min(ready, done + most(done)))
    while done < complete[-1]:
        steps.append(Step(is_behind=True))
        done = _add_output(steps[-1], done, min(complete[-1], done + most(done)))


def _add_output(step: Step, done: int, stop: int) -> int:
    if stop > done:
        step.outputs = slice(done, stop)
    return stop


def _a_group(made: int, elements: int) -> Callable[[int], int]:
    return lambda done: elements


def _a_group_of_the_block(made: int, elements: int) -> Callable[[int], int]:
    return lambda done: min(elements, made - done % made)


_MOST: dict[Rhythm, Callable[[int, int], Callable[[int], int]]] = {
    Rhythm.ELEMENTWISE: _a_group,
    Rhythm.PAIRED: _a_group,
    Rhythm.WINDOWED: _a_group,
    Rhythm.BLOCKWISE: _a_group_of_the_block,
    Rhythm.BESIDE: _a_group,
}
"""How many elements of the target a step takes; blocks of `made` do not share a step."""
require_rows("register.lane_engine.plan._MOST", _MOST, Rhythm)


class _Grouped(NamedTuple):
    """An operand read element by element: its number, and the ports of each of its groups."""

    number: int
    access: Access
    ports: list[PortTuple]


def _of_one_element(number: int, access: Access, ports: Ports) -> Step:
    step = Step()
    step.read(number, slice(0, 1), ports.of_groups(access, "read", 1)[0], access.lanes)
    return step


def _of_a_group(operands: list[_Grouped], group: int, size: int) -> list[Step]:
    """Return a step in which a group of every operand is read, or more where ports collide.

    An operand that has no such group any more is not read.
    """
    steps = [Step()]
    for operand in operands:
        if group >= len(operand.ports):
            continue
        part = slice(group * size, min((group + 1) * size, operand.access.elements))
        near, lanes = operand.ports[group], operand.access.lanes
        if steps[-1].collides(near, lanes):
            steps.append(Step())
        steps[-1].read(operand.number, part, near, lanes)
    return steps


def _add_write_ports(steps: list[Step], target: Access, ports: Ports) -> None:
    by_element, lanes = ports.of_groups(target, "write", 1), target.lanes
    for step in steps:
        if step.outputs is not None:
            found = sorted({port for near in by_element[step.outputs] for port in near})
            step.write_ports = [*wanted(tuple(found), lanes)]


def _add_scales(steps: list[Step], scales: Access, ports: Ports) -> None:
    """Let a step that completes a group's last element write its scale too.

    Where the scale lies in a bank of the elements, it goes through their port.
    """
    by_scale = ports.of_groups(scales, "write", 1)
    for step in steps:
        if step.outputs is None:
            continue
        step.scales = slice(
            step.outputs.start // GROUP_ELEMENTS, step.outputs.stop // GROUP_ELEMENTS
        )
        taken = {port for port, _ in step.write_ports}
        found = {port for near in by_scale[step.scales] for port in near} - taken
        step.write_ports += wanted(tuple(sorted(found)), scales.lanes)
