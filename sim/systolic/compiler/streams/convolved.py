"""A convolution or a product as a stream: lines of pixels are turned, and weights move.

Of each tile of lines every stretch of windows is turned by the array, so that its elements are
partitions and its lines columns. That is the stationary operand; the weights of all windows of the
stretch, zeros between them, are the vectors. So the sums of a line lie in its own partition as they
lie in DRAM, and leave it in long runs. What goes element by element over the sums is done as they
leave the result buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.lane_step import COPY, LaneStep, with_each
from systolic.compiler.streams.buffers import BufferSize
from systolic.compiler.streams.element_wise import ELEMENT_WISE
from systolic.compiler.streams.lines import (
    KTile,
    Lines,
    RowCopy,
    as_images,
    k_tiles_of,
    lies_in_order,
    lines_of,
)
from systolic.compiler.streams.stage import Stage
from systolic.hw.datatypes import SIZE_BYTES, data_type
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Buffer,
    LoadWeights,
    MatMul,
    Memset,
    PassThrough,
    Requantise,
    Select,
)
from systolic.isa.access import Pattern
from systolic.workload import Graph, Operation
from systolic.workload.operations.conv2d import Conv2dAttributes

TURN_BANKS = 2
"""Banks of the result buffer for what is turned; the others are for sums."""
SPREAD_QUEUES = 2
"""Queues that load, and that store, where a copy of one queue has all DMA engines."""
TURNED = 3
"""Buffers of turned stretches."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution or a product, and what goes over its sums: (step, type, bias's tensor or "").

    dtype: of its operands.
    """

    op: Operation
    dtype: str
    output: str
    steps: tuple[tuple[LaneStep, str, str, str], ...]
    lines: Lines


def convolutions(graph: Graph, chip: Chip) -> Iterator[Convolution]:
    """Yield ways to do a graph of one convolution, or product, and of what goes over its sums.

    None of other graphs.
    """
    op, *others = graph.operations
    if op.kind not in ("conv2d", "matmul"):
        return
    last = graph.operations[-1].output
    source, weights, result = (as_images(graph.shape(name)) for name in (*op.inputs, last))
    if source is None or weights is None or result is None:
        return
    if op.kind == "matmul" and weights.dims[:2] != (1, 1):
        return  # other weights for each matrix
    dtype = source.element_type
    is_dense = weights.layout.padded_dimensions in (None, weights.dims)
    if not is_dense or not lies_in_order(weights, 0, 1, 2, 3) or dtype != weights.element_type:
        return
    if dtype not in chip.pe_array.cycles_per_vector or chip.result_buffer.banks < 2:
        return  # what is turned and what is summed up need a bank each
    steps = _steps_over(graph, op, others)
    if steps is None:
        return
    given = op.attributes_as(Conv2dAttributes) if op.kind == "conv2d" else Conv2dAttributes()
    found = lines_of(chip, source, result, given.windows(weights), given.groups)
    for lines in dict.fromkeys(found):
        yield Convolution(op, dtype, last, steps, lines)


def _steps_over(
    graph: Graph, op: Operation, others: Sequence[Operation]
) -> tuple[tuple[LaneStep, str, str, str], ...] | None:
    """Return the steps over the sums; None if one takes more than them and a bias."""
    now, found = op.output, list[tuple[LaneStep, str, str, str]]()
    for each in others:
        if each.kind not in ELEMENT_WISE or now not in each.inputs:
            return None
        biases = [name for name in each.inputs if name != now]
        filters = graph.shape(now).dims[-1]
        row = ELEMENT_WISE[each.kind]
        for name in biases:
            shape = graph.shape(name)
            placed = row.placed(each, shape.dims, graph.shape(now).dims)
            if shape.dims != (filters,) or placed[-1] != 0 or shape.layout.tiles:
                return None
        steps = row.steps(each, graph)
        if len(biases) > 1 or each.inputs[0] != now or (biases and len(steps) > 1):
            return None
        for step, dtype in steps:
            taken = biases[0] if biases else ""
            if step.cls is Requantise and taken:  # its own scale is one number, not one of each
                found.append((with_each("multiply"), "f32", taken, each.name))
                step, taken = step.with_number("scale", 1.0), ""
            found.append((step, dtype, taken, each.name))
        now = each.output
    return tuple(found)


@dataclass(slots=True)
class _Bank:
    """A bank of the result buffer."""

    number: int
    region: Region


class ConvolutionEmitter:
    """Emits a convolution tile by tile."""

    def __init__(self, stage: Stage, work: Convolution, graph: Graph) -> None:
        self._stage, self._work, self._lines = stage, work, work.lines
        self._graph, self._chip = graph, stage.chip
        self._source, self._weights = work.op.inputs
        self._dtype = graph.shape(self._source).element_type
        self._size = SIZE_BYTES[self._dtype]
        self._sums = data_type(self._dtype).accumulator
        self._out = graph.shape(work.output).element_type
        self._k_tiles = k_tiles_of(work.lines)
        self._passes = stage.chip.pe_array.turns_by_passing(self._dtype)
        self._height = min(work.lines.most, work.lines.count)
        banks = stage.chip.result_buffer.banks
        found = [_Bank(n, Region(f"psum{n}")) for n in range(banks)]
        turning = min(TURN_BANKS, banks // 2)
        self._turn_banks, self._sum_banks = found[:turning], found[turning:]
        self._turns = self._sums_made = self._batches = 0
        every = stage.chip.dma.queues
        some = min(SPREAD_QUEUES if stage.chip.dma.is_spread else every // 2, every // 2)
        self._load_queues = range(max(1, some))
        self._store_queues = range(every - max(1, some), every)
        self._layer = work.op.part_of or work.op.name

    # -- places

    def _elements(self, k_tile: KTile) -> int:
        """Return the elements of a K-tile."""
        return k_tile.taps * self._reach(k_tile)

    def _reach(self, k_tile: KTile) -> int:
        return self._lines.reach * k_tile.channels

    @property
    def _at_once(self) -> int:
        """Return how many stretches are turned before they are copied out together."""
        words = self._chip.result_buffer.bank_words // self._height
        return max(1, min(words, -(-self._lines.width // self._lines.stretch)))

    def place(self) -> bool:
        """Give all buffers their bytes; return whether they fit."""
        lines, filters = self._lines, self._lines.result.channels
        slots = min(2, sum(1 for _ in lines.tiles()))
        band = lines.stretch * filters
        sizes = {f"pixels{n}": lines.held * self._size for n in range(slots)}
        out = lines.width * filters * SIZE_BYTES[self._out]
        sizes |= {f"results{n}": out for n in range(slots)}
        turned = self._at_once * self._height * self._size
        sizes |= {f"turned{n}": turned for n in range(TURNED)}
        sizes |= {"identity": self._height * self._size}
        tall = max(self._elements(k_tile) for k_tile in self._k_tiles)
        self._tall, self._wide = tall, tall + (lines.stretch - 1) * self._shift
        most, across = self._k_tiles[0], lines.windows.size[1]
        channels = most.channels // lines.groups
        self._given = most.taps * across * channels
        apart = lines.reach if lines.plane else 1
        self._spread = tall + (most.channels - channels) * apart
        sizes |= {"shifts": self._wide * self._size, "places": self._spread * self._size}
        sizes |= {f"given{n}": filters * self._size for n, _ in enumerate(self._k_tiles)}
        sizes |= {f"first{n}": filters * self._size for n, _ in enumerate(self._k_tiles)}
        sizes |= {f"weights{n}": band * self._size for n, _ in enumerate(self._k_tiles)}
        for number, (_, _, bias, _) in enumerate(self._work.steps):
            if bias:
                kind = self._graph.shape(bias).element_type
                sizes[f"bias{number}"] = band * SIZE_BYTES[kind]
        for number, (_, dtype, _, _) in enumerate(self._work.steps[:-1]):
            for turn in range(2):
                sizes[f"step{number}.{turn}"] = band * SIZE_BYTES[dtype]
        names = list(sizes)
        found = self._stage.buffers(names, [BufferSize(sizes[name]) for name in names])
        if found is None:
            return False
        self._at = dict(zip(names, found, strict=True))
        self._slots = slots
        self._rows = [
            [Region(f"pixels{slot}.{tap}") for tap in range(lines.windows.size[0])]
            for slot in range(slots)
        ]
        return True

    def _state(
        self,
        name: str,
        dtype: str,
        lanes: tuple[int, int],
        at: int,
        pattern: tuple[tuple[int, int], ...],
    ) -> Access:
        first = self._at[name].first + at * SIZE_BYTES[dtype]
        return Access(Buffer.STATE, dtype, lanes[0], lanes[1], first, pattern)

    def _dram(self, tensor: str, at: int, pattern: Pattern) -> Access:
        dtype = self._graph.shape(tensor).element_type
        first = self._stage.bases[tensor] + at * SIZE_BYTES[dtype]
        return Access(Buffer.DRAM, dtype, 0, 1, first, pattern)

    @property
    def identity(self) -> Access:
        """Return the identity with which stretches are turned."""
        return self._state("identity", self._dtype, (0, self._height), 0, ((1, self._height),))

    # -- instructions

    def run(self) -> int:
        """Emit all instructions; return how many tiles there are."""
        self._stage.begin()
        tiles = list(self._lines.tiles())
        self._load(0, tiles[0])
        self._begin()
        waiting: list[tuple[int, list[tuple[int, int]], str]] = []
        for number, tile in enumerate(tiles):
            if number + 1 < len(tiles):
                self._load(number + 1, tiles[number + 1])
            for batch in self._batches_of():
                waiting.append((number, batch, self._turn(number, len(tile), batch)))
                if len(waiting) > 1:
                    self._finish(tiles, *waiting.pop(0))
        for each in waiting:
            self._finish(tiles, *each)
        return len(tiles)

    def _begin(self) -> None:
        """Write the identity, and bring weights and biases to where they stay."""
        lines, stage = self._lines, self._stage
        height, filters = self._height, lines.result.channels
        ones = self._state("identity", self._dtype, (0, height), 0, ((1, height),))
        diagonal = {"compare": "equal", "value": 1, "per_partition": 1, "per_element": -1}
        make = LaneStep(Select, diagonal)
        stage.on_engine(self._layer, make, {"target": ones}, (), self._at["identity"].region)
        last = (lines.stretch - 1) * self._shift
        shifts = self._state("shifts", self._dtype, (0, self._tall), 0, ((1, self._wide),))
        make = LaneStep(Select, {**diagonal, "base": last})
        stage.on_engine(self._layer, make, {"target": shifts}, (), self._at["shifts"].region)
        self._begin_places(LaneStep(Select, diagonal))
        band = lines.stretch * filters
        for number, k_tile in enumerate(self._k_tiles):
            self._bring_weights(number, k_tile)
        for number, (_, _, bias, layer) in enumerate(self._work.steps):
            if bias:
                kind = self._graph.shape(bias).element_type
                pattern = ((0, height), (0, lines.stretch), (1, filters))
                target = self._state(f"bias{number}", kind, (0, height), 0, ((1, band),))
                regions = stage.tensor(bias), self._at[f"bias{number}"].region
                stage.copy(
                    layer, self._load_queues, (self._dram(bias, 0, pattern), target), regions
                )

    def _begin_places(self, diagonal: LaneStep) -> None:
        """Write where the first window's pixels are: a one in the row of each of its weights."""
        lines, stage, region = self._lines, self._stage, self._at["places"].region
        whole = self._state("places", self._dtype, (0, self._given), 0, ((1, self._spread),))
        stage.on_engine(self._layer, LaneStep(Memset, {"value": 0}), {"target": whole}, (), region)
        region.end_phase()
        k_tile, (_, across) = self._k_tiles[0], lines.windows.size
        channels, row = k_tile.channels // lines.groups, self._reach(k_tile)
        pixel, plane = (1, lines.reach) if lines.plane else (k_tile.channels, 1)
        pattern = (
            (row, k_tile.taps),
            (lines.windows.dilation[1] * pixel, across),
            (plane, channels),
        )
        first = (lines.groups - 1) * channels * plane
        ones = self._state("places", self._dtype, (0, self._given), first, pattern)
        stage.on_engine(self._layer, diagonal, {"target": ones}, (), region)

    def _bring_weights(self, number: int, k_tile: KTile) -> None:
        """Bring the weights; the array puts them to the pixels of each window, zeros elsewhere."""
        lines, filters, stage = self._lines, self._lines.result.channels, self._stage
        across, channels = lines.windows.size[1], k_tile.channels // lines.groups
        rows, own = k_tile.taps * across * channels, filters // lines.groups
        given, first = f"given{number}", f"first{number}"
        row = k_tile.tap * across * lines.source.channels // lines.groups + k_tile.channel
        outside = self._dram(self._weights, row * filters, ((filters, rows), (1, filters)))
        inside = self._state(given, self._dtype, (0, rows), 0, ((1, filters),))
        regions = stage.tensor(self._weights), self._at[given].region
        stage.copy(self._layer, self._store_queues, (outside, inside), regions)
        height = self._elements(k_tile)
        apart = channels * (lines.reach if lines.plane else 1)
        groups = [
            ("places", (lines.groups - 1 - group) * apart, group * own)
            for group in range(lines.groups)
        ]
        self._place_weights(number, (given, rows, own), (first, height), groups)
        shift, last = self._shift, lines.stretch - 1
        windows = [("shifts", (last - n) * shift, n * filters) for n in range(lines.stretch)]
        self._place_weights(number, (first, height, filters), (f"weights{number}", height), windows)

    def _place_weights(
        self,
        number: int,
        source: tuple[str, int, int],
        target: tuple[str, int],
        places: Sequence[tuple[str, int, int]],
    ) -> None:
        """Put rows of weights to other partitions.

        source: buffer, rows, columns. target: buffer, rows. places: (buffer of ones and zeros, its
        first column, the first column in the target); where `source` is wider, its columns too.
        """
        (given, rows, columns), (made, height), drafts = source, target, self._stage.drafts
        bank, filters = self._sum_banks[number % len(self._sum_banks)], self._lines.result.channels
        for ones, at, column in places:
            weights = self._state(ones, self._dtype, (0, rows), at, ((1, height),))
            drafts.begin(self._layer)
            drafts.add(LoadWeights(weights=weights), (self._at[ones].region,), ())
            first = column % filters
            moving = self._state(given, self._dtype, (0, rows), first, ((1, columns),))
            sums = self._result(bank, self._sums, height, column, columns)
            held = self._at[given].region
            drafts.add(MatMul(moving=moving, result=sums), (held,), (bank.region,))
        every = columns * len(places)
        out = self._state(made, self._dtype, (0, height), 0, ((1, every),))
        ends = {"source": self._result(bank, self._sums, height, 0, every), "target": out}
        self._stage.on_engine(self._layer, COPY, ends, (bank.region,), self._at[made].region)

    @property
    def _shift(self) -> int:
        """Return by how many elements of a K-tile a window is from the next."""
        lines = self._lines
        return lines.windows.stride[1] * (1 if lines.plane else lines.channels)

    def _load(self, number: int, tile: range) -> None:
        """Bring the pixels of a tile's lines; what no copy brings is zero."""
        lines, stage = self._lines, self._stage
        name, planes = f"pixels{number % self._slots}", lines.source.channels if lines.plane else 1
        zeros = partial(stage.on_engine, self._layer, LaneStep(Memset, {"value": 0}))
        for tap, region in enumerate(self._rows[number % self._slots]):
            copies = list(lines.loads(tile, tap))
            for at, elements in self._gaps(tile, tap, copies, fresh=number < self._slots):
                pattern = self._runs(elements, lines.plane, planes)
                target = self._state(name, self._dtype, (0, len(tile)), at, pattern)
                zeros({"target": target}, (), region)
            region.end_phase()
            for copy in copies:
                runs = self._runs(copy.elements, lines.source.plane, copy.runs)
                outside = self._dram(self._source, copy.at, ((copy.step, copy.lanes), *runs))
                runs = self._runs(copy.elements, lines.plane, copy.runs)
                inside = self._state(name, self._dtype, (copy.lane, copy.lanes), copy.to, runs)
                regions = stage.tensor(self._source), region
                stage.copy(self._layer, self._load_queues, (outside, inside), regions)

    @staticmethod
    def _runs(elements: int, step: int, count: int) -> Pattern:
        """Return the pattern of elements side by side, or of a run of them in every plane."""
        return ((step, count), (1, elements)) if count > 1 else ((1, elements),)

    def _gaps(
        self, tile: range, tap: int, copies: Sequence[RowCopy], *, fresh: bool
    ) -> Iterator[tuple[int, int]]:
        """Yield the first and the number of elements of a row that some lines do not get.

        Where lines are whole rows, what lies beside an image is zero from the first tile on.
        """
        lines, row = self._lines, self._lines.row_elements
        begin, whole = tap * row, lines.plane or row
        if sum(copy.lanes for copy in copies) < len(tile):
            yield begin, whole
        elif fresh or lines.strips > 1:
            end = begin + whole
            first = max(copy.to for copy in copies)
            stop = min(copy.to + copy.elements for copy in copies)
            found = ((begin, first), (stop, end)) if first <= stop else ((begin, end),)
            yield from ((at, upto - at) for at, upto in found if at < upto)
        behind = begin + row
        if fresh and tap == lines.windows.size[0] - 1 and behind < lines.held:
            yield behind, lines.held - behind

    def _batches_of(self) -> Iterator[list[tuple[int, int]]]:
        """Yield the (stretch, K-tile) of a line that are turned together."""
        stretches = -(-self._lines.width // self._lines.stretch)
        sizes = [self._elements(k_tile) for k_tile in self._k_tiles]
        units = [(n, k) for n in range(stretches) for k in range(len(self._k_tiles))]
        batch: list[tuple[int, int]] = []
        for unit in units:
            if batch and (len(batch) == self._at_once or sizes[unit[1]] != sizes[batch[0][1]]):
                yield batch
                batch = []
            batch.append(unit)
        yield batch

    def _turn(self, number: int, lanes: int, batch: list[tuple[int, int]]) -> str:
        """Turn some stretches; return the buffer in which they are."""
        lines, drafts = self._lines, self._stage.drafts
        name = f"turned{self._batches % TURNED}"
        self._batches += 1
        bank = self._turn_banks[self._turns % len(self._turn_banks)]
        self._turns += 1
        kind = PassThrough if self._passes else MatMul
        dtype = self._dtype if self._passes else self._sums
        pixels = f"pixels{number % self._slots}"
        ones = self._state("identity", self._dtype, (0, lanes), 0, ((1, lanes),))
        drafts.begin(self._layer)
        for place, (stretch, k) in enumerate(batch):
            k_tile = self._k_tiles[k]
            first = stretch * lines.stretch * lines.windows.stride[1] * lines.source.pixel
            at = k_tile.tap * lines.row_elements + first + k_tile.channel * (lines.plane or 1)
            pattern: Pattern = ((lines.row_elements, k_tile.taps), (1, self._reach(k_tile)))
            if lines.plane:
                channels = (lines.plane, k_tile.channels)
                pattern = (pattern[0], channels, (1, lines.reach))
            weights = self._state(pixels, self._dtype, (0, lanes), at, pattern)
            drafts.add(LoadWeights(weights=weights), self._rows_read(number, k_tile), ())
            result = self._result(bank, dtype, self._elements(k_tile), place * lanes, lanes)
            drafts.add(
                kind(moving=ones, result=result), (self._at["identity"].region,), (bank.region,)
            )
        height = self._elements(self._k_tiles[batch[0][1]])
        source = self._result(bank, dtype, height, 0, len(batch) * lanes)
        target = self._state(name, self._dtype, (0, height), 0, ((1, len(batch) * lanes),))
        ends = {"source": source, "target": target}
        self._stage.on_engine(self._layer, COPY, ends, (bank.region,), self._at[name].region)
        return name

    def _rows_read(self, number: int, k_tile: KTile) -> Sequence[Region]:
        """Return the rows of pixels of a K-tile, and the next one if its last stretch sees it."""
        beyond = bool(self._lines.beyond and not self._lines.plane)
        rows = self._rows[number % self._slots]
        return rows[k_tile.tap : k_tile.tap + k_tile.taps + beyond]

    def _result(self, bank: _Bank, dtype: str, lanes: int, word: int, words: int) -> Access:
        start = bank.number * self._chip.result_buffer.bank_bytes + word * 4
        return Access(Buffer.RESULT, dtype, 0, lanes, start, ((1, words),))

    def _finish(
        self, tiles: Sequence[range], number: int, batch: list[tuple[int, int]], turned: str
    ) -> None:
        """Multiply turned stretches, take their sums out, and store a tile that is whole."""
        lines, drafts, lanes = self._lines, self._stage.drafts, len(tiles[number])
        filters, last = lines.result.channels, len(self._k_tiles) - 1
        for place, (stretch, k) in enumerate(batch):
            height = self._elements(self._k_tiles[k])
            many = min(lines.stretch, lines.width - stretch * lines.stretch) * filters
            bank = self._sum_banks[self._sums_made % len(self._sum_banks)]
            drafts.begin(self._layer)
            stationary = self._state(turned, self._dtype, (0, height), place * lanes, ((1, lanes),))
            drafts.add(LoadWeights(weights=stationary), (self._at[turned].region,), ())
            moving = self._state(f"weights{k}", self._dtype, (0, height), 0, ((1, many),))
            sums = self._result(bank, self._sums, lanes, 0, many)
            multiply = MatMul(moving=moving, result=sums, accumulate=k > 0)
            held = self._at[f"weights{k}"].region
            drafts.add(multiply, (held,), (bank.region,), accumulates=k > 0)
            if k == last:
                self._sums_made += 1
                windows = stretch * lines.stretch, many // filters
                self._take_out(number, (sums, bank.region), windows)
        if batch[-1][0] == -(-lines.width // lines.stretch) - 1 and batch[-1][1] == last:
            self._store(number, tiles[number])

    def _take_out(self, number: int, held: tuple[Access, Region], windows: tuple[int, int]) -> None:
        """Do the steps over the sums of windows (first, count); the last one writes the results."""
        (window, count), (now, region), stage, made = (
            windows,
            held,
            self._stage,
            self._lines.result,
        )
        results, lanes = f"results{number % self._slots}", (0, now.partitions)
        side_by_side: Pattern = ((1, count * made.channels),)
        steps = self._work.steps or ((COPY, self._out, "", self._layer),)
        for place, (step, dtype, bias, layer) in enumerate(steps):
            name, first, pattern = f"step{place}.{self._sums_made % 2}", 0, side_by_side
            if place == len(steps) - 1:
                name, first = results, window * made.pixel
                pattern = (
                    ((1, count), (self._lines.width, made.channels)) if made.plane else pattern
                )
            target = self._state(name, dtype, lanes, first, pattern)
            named, reads = {step.first: now, "target": target}, [region]
            if bias:
                kind = self._graph.shape(bias).element_type
                named[step.others[0]] = self._state(f"bias{place}", kind, lanes, 0, side_by_side)
                reads.append(self._at[f"bias{place}"].region)
            stage.on_engine(layer, step, named, reads, self._at[name].region)
            now, region = target, self._at[name].region

    def _store(self, number: int, tile: range) -> None:
        name, stage = f"results{number % self._slots}", self._stage
        for copy in self._lines.stores(tile):
            every = ((1, copy.elements * copy.runs),)
            inside = self._state(name, self._out, (copy.lane, copy.lanes), copy.to, every)
            runs = self._runs(copy.elements, self._lines.result.plane, copy.runs)
            outside = self._dram(self._work.output, copy.at, ((copy.step, copy.lanes), *runs))
            regions = self._at[name].region, stage.tensor(self._work.output)
            stage.copy(self._layer, self._store_queues, (inside, outside), regions)
