"""Lowering of moves of packed tensors on the chip: in bytes first, then unpacked, then sent.

Where several elements share a byte, a byte is moved for the price of one element. So an engine
brings the bytes of each lane in the order in which the result has its elements, but for the
elements of one byte. Then they are unpacked in planes, four bytes of a word at once: element k of
all bytes is a plane, in which neighbours are neighbours in the result. DMA sends their runs to the
places of the result. Not here: elements without padding that share bytes on both sides
(`whole_bytes`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest

import numpy as np

from systolic.compiler.cost.engines import WORD_BYTES
from systolic.compiler.cost.lane_rounds import independent_engines
from systolic.compiler.cost.relays import rough_ticks
from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.chip_places import LANE, ChipPlaces
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.relays import (
    BoxStep,
    RelayDigit,
    RelayEnds,
    RelayPlaces,
    relay_ends,
    split_digit,
)
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.digit_moves import SPARE_BYTES, holder_of_places, places_at_home
from systolic.compiler.lower.relays import (
    TRIED,
    RelayPath,
    RelayPlanner,
    columns_between,
    lanes_between,
    relay_choices,
)
from systolic.element_types import BYTE_BITS
from systolic.hw.spec import Chip
from systolic.workload import Operation, Tensor, TransposeAttributes
from systolic.workload.options import Options

BYTES = "u8"


@dataclass(frozen=True, slots=True)
class _ByteRelay:
    """How a packed tensor goes to a result: legs of bytes, and the leg of elements in planes."""

    result: ChipPlaces
    bytes_: tuple[ChangeOfView, ...]
    elements: ChangeOfView
    ticks: int


def relayed_by_bytes(
    builder: LayerBuilder, names: tuple[str, str], packed: Tensor, bits: int
) -> bool:
    """Move a packed input to the result of the only operation that takes it, if that is a move.

    names: of the packed tensor and of its elements. packed: its shape in tiles, and its home.
    Returns whether it is done; the result is at home then.
    """
    op = _only_move(builder, names[1])
    if op is None or whole_banks(builder.chip) or packed.partition:
        return False
    permutation = _permutation(builder, op)
    start = next(places_at_home(builder.chip, builder.graph.tensor(names[1])), None)
    if start is None:
        return False
    planner = _BytePlanner(builder.chip, builder.options, BYTE_BITS // bits)
    stops = places_at_home(builder.chip, builder.graph.tensor(op.output))
    found = [move for stop in stops for move in planner.moves(start, stop, permutation)]
    if not found:
        return False
    _emit(builder, (names[0], op.output), packed, min(found, key=lambda move: move.ticks), bits)
    builder.placed(names[1])
    return True


def _only_move(builder: LayerBuilder, elements: str) -> Operation | None:
    """Return the operation that moves a tensor on the chip to a result there, if it is alone."""
    graph, options = builder.graph, builder.options
    users = [op for op in graph.operations if elements in op.inputs]
    if len(users) != 1 or users[0].kind not in ("transpose", "relayout", "reshape"):
        return None
    (op,) = users
    home = graph.tensor(op.output)
    alone = op.output in graph.outputs and not builder.uses(op.output)
    plain = home.home == "state_buffer" and not home.partition and not builder.is_packed(op.output)
    asked = options.via or options.block or options.tile_columns
    return op if alone and plain and not asked else None


def _permutation(builder: LayerBuilder, op: Operation) -> Sequence[int] | None:
    if op.kind == "reshape":
        return None
    if op.kind == "transpose":
        return op.attributes_as(TransposeAttributes).axes
    return range(builder.graph.shape(op.output).rank)


@dataclass(frozen=True, slots=True)
class _BytePlanner:
    """The chip and the options for which moves are estimated; ways: the elements of a byte."""

    chip: Chip
    options: Options
    ways: int

    def moves(
        self, start: ChipPlaces, stop: ChipPlaces, permutation: Sequence[int] | None
    ) -> Iterator[_ByteRelay]:
        """Yield moves from the places of all elements, unpacked, to the places of a result."""
        ends = relay_ends(start, stop, permutation)
        parts = None if ends is None else self._in_bytes(ends)
        if ends is None or parts is None:
            return
        source, digits, element = parts
        planner = RelayPlanner(self.chip, self.options, BYTES)
        paths = nsmallest(
            TRIED,
            self._paths(digits),
            key=lambda path: self._roughly(path, element),
        )
        for path in paths:
            places = [source, *path.places(source.dims)]
            ordered = places[-1]
            planes = self._planes(ordered, ends, element)
            room = sum(place.columns for place in (*places, planes, ends.result)) + SPARE_BYTES
            if room > self.chip.state_buffer.bytes_per_partition:
                continue
            wide = [d._replace(worth=d.worth * self.ways) if d.group == element.group else d
                    for d in path.choice.digits]  # fmt: skip
            bytes_ = planner.legs(places, path.choice.digits)
            sent = planner.legs([planes, ends.result], [*wide, element])
            if bytes_ and sent:
                ticks = bytes_[1] + self._unpacking(ordered.columns) + sent[1]
                yield _ByteRelay(stop, bytes_[0], sent[0][0], ticks)

    def _paths(self, digits: Sequence[RelayDigit]) -> Iterator[RelayPath]:
        """Yield paths of bytes, which end in the order of the result but for its partitions."""
        for choice in dict.fromkeys(relay_choices(digits, block_rows(self.chip), whole=True)):
            first, last = columns_between(choice)
            stays = first == last or choice.are_lanes(before=True)
            yield RelayPath(choice, (last,) if stays else (first, last))
            if not stays and independent_engines(self.chip, self.options):
                yield RelayPath(choice, (last,))

    def _roughly(self, path: RelayPath, element: RelayDigit) -> int:
        """Return about how many ticks a move takes whose bytes go a path but for its last leg."""
        *legs, last = path.steps()
        columns = math.prod(digit.size for digit in path.orders[-1])
        last.append(BoxStep(self.ways, columns, element.after))
        ticks = (rough_ticks(self.chip, self.options, leg, 1) for leg in (*legs, last))
        return sum(ticks) + self._unpacking(columns)

    def _unpacking(self, columns: int) -> int:
        """Return about how many ticks an engine takes to unpack `columns` bytes of each lane."""
        words = columns if columns % WORD_BYTES else columns // WORD_BYTES
        return self.ways * words * min(map(self.chip.period, self.chip.lane_engines), default=0)

    def _in_bytes(
        self, ends: RelayEnds
    ) -> tuple[RelayPlaces, tuple[RelayDigit, ...], RelayDigit] | None:
        """Return the places of the bytes, their digits, and the digit of elements in a byte.

        Padding is moved with the bytes, so that all digits have all of their values, and nothing is
        unpacked that has not been written. None if elements of a byte are not neighbours along a
        dimension, or bytes are broken.
        """
        ways, found = self.ways, []
        element: RelayDigit | None = None
        for digit in ends.digits:
            if digit.before == 1 and digit.worth == 1 and digit.size % ways == 0:
                major, element = split_digit(digit, ways)
                found += [major] if major.size > 1 else []
            elif digit.before % ways or digit.before < ways:
                return None
            else:
                found.append(digit)
        if element is None or ends.source.dims[element.group] % ways:
            return None
        group, digits = element.group, []
        offsets = [np.zeros(1, np.int64) for _ in ends.source.dims]
        for digit in sorted(found, key=lambda digit: digit.worth):
            before = digit.before if digit.before >= LANE else digit.before // ways
            worth = digit.worth // ways if digit.group == group else digit.worth
            digits.append(digit._replace(before=before, worth=worth))
            line = np.arange(digit.size) * before
            offsets[digit.group] = (line[:, None] + offsets[digit.group]).ravel()
        columns, last = ends.source.columns // ways, sum(int(line[-1]) for line in offsets)
        if last % LANE >= columns or last // LANE >= ends.source.rows:
            return None
        return RelayPlaces(tuple(offsets), ends.source.rows, columns), tuple(digits), element

    def _planes(self, bytes_: RelayPlaces, ends: RelayEnds, element: RelayDigit) -> RelayPlaces:
        """Return the places of all elements, unpacked in planes."""
        offsets = list(bytes_.offsets)
        planes = np.arange(self.ways) * bytes_.columns
        offsets[element.group] = (offsets[element.group][:, None] + planes).ravel()
        own = [line[:size] for line, size in zip(offsets, ends.source.dims, strict=True)]
        return RelayPlaces(tuple(own), bytes_.rows, bytes_.columns * self.ways)


def _emit(
    builder: LayerBuilder, names: tuple[str, str], packed: Tensor, move: _ByteRelay, bits: int
) -> None:
    """Place source and result, and add the legs and the unpacking between them."""
    name, output = names
    places = move.bytes_[0].source
    _, rows, cols = places.sizes()
    held = builder.whole_rows(name, (rows, cols), ((), ()), rows)
    held = builder.at_place(held, packed, cols, given=True)
    builder.homes.lies_at(name, packed.shape, held)
    cycles = move.ticks // builder.chip.period("pe_array")
    builder.choose(f"{name} goes to {output} byte by byte, and is unpacked (about {cycles} cycles)")
    for leg in move.bytes_:
        into = lanes_between(builder, output, BYTES, leg.target)
        builder.node("move", (held,), into, leg)
        held = into
    planes = lanes_between(builder, output, BYTES, move.elements.source)
    builder.unpack(held, planes, bits, planes=True)
    result = holder_of_places(builder, output, move.result, "node")
    builder.node("move", (planes,), result, move.elements)
    builder.keep_matrix(output, result, result.axes)
