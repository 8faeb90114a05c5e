"""Which cores and processors depend on one another: they talk, or share DRAM, wires or starts."""

from __future__ import annotations

from collections.abc import Iterator

from systolic.hw.spec.places import ChipPlace, controller, place_of
from systolic.isa import Access, DmaCopy, DmaMove
from systolic.isa.instruction import Command
from systolic.isa.joint import JointProgram
from systolic.isa.legality.chip_program import copy_ends


def islands(joint: JointProgram) -> list[list[ChipPlace]]:
    """Return the places that have a program, those that depend on one another together."""
    group: dict[object, object] = {}
    for launch in joint.launches:
        place = launch.section.place
        _find(group, place)
        if launch.by is not None:
            _join(group, place, launch.by[0])
    for unit, instruction in zip(joint.launch_of, joint.program.instructions, strict=True):
        place = joint.launches[unit].section.place
        for post in instruction.posts:
            owner = joint.launches[joint.launch_of_semaphore[post.semaphore]].section.place
            _join(group, place, owner)
        if isinstance(instruction, Command):
            if instruction.word == "start":
                _join(group, place, place_of(instruction.at))
        elif isinstance(instruction, DmaCopy):
            for thing in _used(joint, instruction, place):
                _join(group, place, thing)
    found: dict[object, list[ChipPlace]] = {}
    for place in dict.fromkeys(launch.section.place for launch in joint.launches):
        found.setdefault(_find(group, place), []).append(place)
    return list(found.values())


def _used(joint: JointProgram, copy: DmaCopy, feeder: ChipPlace) -> Iterator[object]:
    """Yield what a copy uses: cores, controllers, and pools of the interconnect by name."""
    chip, ends = joint.chip, copy_ends(copy)
    places = list[set[ChipPlace]]()
    for number, (_, at, access) in enumerate(ends):
        is_code = number == 1 and isinstance(copy, DmaMove) and copy.brings_code
        if access.buffer == "dram" and not is_code:
            places.append({controller(n) for n in _controllers(joint, access)})
        else:
            places.append({place_of(at.removesuffix(".code")) or feeder})
    for of_end in places:
        yield from of_end
    for source in places[0]:
        for of_end in places[1:]:
            for target in of_end:
                way = chip.way(source, target)
                yield from way.pools if way is not None else ()


def _controllers(joint: JointProgram, access: Access) -> set[int]:
    """Return the controllers between the first byte of an access and its last."""
    low, high = access.low_and_high
    found, many = set[int](), len(joint.chip.controller_drams)
    while low < high and len(found) < many:
        piece = joint.chip.piece(low)
        found.add(piece.controller)
        low = piece.stop
    return found


def _find(group: dict[object, object], thing: object) -> object:
    group.setdefault(thing, thing)
    while group[thing] != thing:
        group[thing] = group[group[thing]]
        thing = group[thing]
    return thing


def _join(group: dict[object, object], one: object, other: object) -> None:
    group[_find(group, one)] = _find(group, other)
